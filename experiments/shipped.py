"""Files that come with the package, found by name from anywhere: configurations, study plans and sweeps."""

from collections.abc import Iterator
from pathlib import Path

from atlas_gym.text import one_line
from atlas_gym.trainers.store.plain import SettingsError, nearest

_KINDS = {
    "configs": "configurations: atlas run --config NAME",
    "sweeps": "sweeps: wandb sweep FILE",
    "studies": "studies: atlas study NAME",
}


def shipped() -> Iterator[str]:
    """Lines that list them, each with the beginning of what it says of itself."""
    for kind, title in _KINDS.items():
        paths = sorted((Path(__file__).parent / kind).glob("*.yaml"))
        yield f"\n{title}, in {paths[0].parent}"
        for path in paths:
            with path.open(encoding="utf-8") as file:
                yield f"  {path.stem:<20} {one_line(file.readline().removeprefix('#'), 96)}"


def find(kind: str, given: str) -> Path:
    """The file that somebody means by `given`: a path of their own, such as `./my.yaml`, else a shipped file's name in
    the folder `kind`: `default` or `default.yaml`. Raises `SettingsError` if there is neither; the message has the
    nearest shipped name, or all."""
    own = Path(given)
    if own.is_file():
        return own
    known = {path.stem: path for path in sorted((Path(__file__).parent / kind).glob("*.yaml"))}
    if own.parent == Path() and own.suffix in ("", ".yaml") and own.stem in known:
        return known[own.stem]
    raise SettingsError(f"no file {given}{nearest(own.stem, known)}")
