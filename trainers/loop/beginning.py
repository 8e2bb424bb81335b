"""What a run was begun with: its settings, the secret that its tasks are drawn under, and the text of a task that is
not this package's.

The store keeps them beside the candidates. A config.yaml that was cut short, another secret or a task that was changed
would make another run of it in the middle, and nobody would be told.
"""

import contextlib
from collections.abc import Collection
from pathlib import Path

from atlas_gym import yaml_text
from atlas_gym.hidden_streams import SECRET_VARIABLE, SecretError, hidden_stream, marks, secret_path
from atlas_gym.tasks.registry import registered_ids, source_key
from atlas_gym.text import one_line
from atlas_gym.trainers.loop.config import RunConfig, as_yaml, changes, load_config, refused_changes
from atlas_gym.trainers.store.folder import write_anew
from atlas_gym.trainers.store.plain import SettingsError, flatten, plain
from atlas_gym.trainers.store.rows import damaged
from atlas_gym.trainers.store.store import RunStore, StoreError

BEGIN = Path("adapters", "begin")
"""Where, in a run's folder, the adapter is kept that it began with."""


def note_beginning(config: RunConfig, store: RunStore) -> None:
    """Store what the run is begun with; its settings anew when it goes on with changes that it may have."""
    store.set_meta("settings", as_yaml(config))
    store.set_meta("marks", sorted(marks(reached(config))))
    for key, value in (("secret", _fingerprint()), ("task", _source(config.env))):
        if store.get_meta(key) is None:
            store.set_meta(key, value)


def reached(config: RunConfig) -> list[str]:
    """`setting: value` of all in the settings, W&B's included, that runs code, is connected to or names a key."""
    usual = flatten(plain(RunConfig()))
    found = {
        key: value
        for key, value in flatten(plain(config)).items()
        if (key.endswith((".base_url", ".api_key_env")) or key.startswith("backend.vllm.extra."))
        and value != usual.get(key, "")
    }
    if config.env not in registered_ids():
        found["env"] = (
            Path(config.env).resolve() if "/" in config.env or Path(config.env).exists() else config.env
        )
    for told in (Path("wandb", "settings"), Path(".wandb", "settings")):  # those of the working directory
        if config.tracking != "off" and told.is_file():
            found[f"W&B's {told.resolve()}"] = told.read_text(encoding="utf-8", errors="replace")
    return [f"{key}: {value}" for key, value in found.items()]


def require_trust(folder: Path, config: RunConfig, given: Collection[str] = ()) -> None:
    """Refuse to go by settings of a run that reach what this machine's user has asked for neither in a run begun here
    nor in the settings `given` now. Raises `SettingsError`: the message names what the run reaches."""
    own: set[str] = set()
    with contextlib.suppress(StoreError), RunStore.open_readonly(folder) as store:
        own = set(map(str, store.get_meta("marks", [])))
    foreign = [
        said for said in reached(config) if said.partition(":")[0] not in given and not marks([said]) & own
    ]
    if foreign:
        raise SettingsError(
            f"{folder} is not a run that you have begun on this machine with all of its settings that run code, or "
            f"say where keys and programs go: {one_line('; '.join(foreign), 2000)}. If you trust these, add --trust"
        )


def require_beginning(config: RunConfig, store: RunStore) -> None:
    """Refuse to continue a run under other settings, under another secret or on another task than it was begun with.
    Raises `SettingsError`: the message names what differs, or why there is no secret."""
    if (secret := _fingerprint()) != store.get_meta("secret", secret):
        raise SettingsError(
            f"{store.folder} was begun under another secret, so that its tasks were others: set {SECRET_VARIABLE} to "
            f"that secret, put its file back in {secret_path()}, or name another --folder"
        )
    source = _source(config.env)
    if source and source != (store.get_meta("task") or source):
        raise SettingsError(
            f"{config.env} is not what it was when {store.folder} was begun, and scores of both mean nothing to one "
            "another: undo the change, or begin a run of its own under another --folder"
        )
    if changed := _changes(config, store):
        raise SettingsError(
            f"{store.folder / 'config.yaml'} is not what the run was begun with ({changed}): delete that file, and "
            "--resume writes it again, or name another --folder"
        )


def _source(env: str) -> str:
    """What tells the task's text from others; empty where there is none, or no such task, as will be said later."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        return source_key(env)
    return ""


def _changes(config: RunConfig, store: RunStore) -> str:
    """What is refused of the settings; and of the file's, which was cut short where they are not the run's own."""
    stored = store.get_meta("settings")
    if stored is None:
        return ""
    try:
        settings = yaml_text.load(str(stored))
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise damaged(stored, "the run's settings")
    file = store.folder / "config.yaml"
    try:
        begun = load_config(None, settings)
        kept = load_config(file, {}) if file.exists() else begun
        return changes(begun, kept) or refused_changes(begun, config)
    except SettingsError:  # another release had other settings; what config.yaml says now has been understood
        return ""


def restore_config(folder: Path) -> None:
    """Write a `config.yaml` that was lost again, where the run's store knows what it was."""
    with contextlib.suppress(StoreError), RunStore.open_readonly(folder) as store:
        if settings := store.get_meta("settings"):
            write_anew(folder / "config.yaml", str(settings))


def _fingerprint() -> str:
    """Tells secrets apart, and is too short to find one by."""
    try:
        return hidden_stream("fingerprint of the secret").bytes(4).hex()
    except SecretError as error:
        raise SettingsError(str(error)) from error
