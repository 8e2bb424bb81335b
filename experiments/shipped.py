"""Files that come with the package, found by name from anywhere: configurations, study plans and sweeps."""

from pathlib import Path

from atlas_gym.trainers.store.plain import SettingsError, nearest


def find(kind: str, given: str) -> Path:
    """The file that somebody means by `given`: a path of their own, or the name of a shipped file.

    Args:
        kind: the folder beside this module: `configs`, `studies` or `sweeps`.
        given: `default`, `default.yaml` or a path such as `./my.yaml`. A file of that path comes first.

    Raises:
        SettingsError: there is neither; the message has the nearest shipped name, or all.
    """
    own = Path(given)
    if own.is_file():
        return own
    known = {path.stem: path for path in sorted((Path(__file__).parent / kind).glob("*.yaml"))}
    if own.parent == Path() and own.suffix in ("", ".yaml") and own.stem in known:
        return known[own.stem]
    raise SettingsError(f"no file {given}{nearest(own.stem, known)}")
