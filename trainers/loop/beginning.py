"""What a run was begun with: its settings, and the secret that its tasks are drawn under.

The store keeps both beside the candidates. A config.yaml that was cut short, or another secret, would make another
run of it in the middle, and nobody would be told.
"""

import contextlib
from pathlib import Path

import yaml

from atlas_gym.hidden_streams import SECRET_VARIABLE, SecretError, hidden_stream, secret_path
from trainers.loop.config import RunConfig, as_yaml, load_config, without_budgets
from trainers.store.plain import SettingsError, differences
from trainers.store.store import RunStore, StoreError

BEGIN = Path("adapters", "begin")
"""Where, in a run's folder, the adapter is kept that it began with."""


def note_beginning(config: RunConfig, store: RunStore) -> None:
    """Store what the run is begun with, once."""
    for key, value in (("settings", as_yaml(config)), ("secret", _fingerprint())):
        if store.get_meta(key) is None:
            store.set_meta(key, value)


def require_beginning(config: RunConfig, store: RunStore) -> None:
    """Refuse to continue a run under other settings, or under another secret, than it was begun with.

    Raises:
        SettingsError: the message names what differs, or why there is no secret.
    """
    if (secret := _fingerprint()) != store.get_meta("secret", secret):
        raise SettingsError(
            f"{store.folder} was begun under another secret, so that its tasks were others: set {SECRET_VARIABLE} to "
            f"that secret, put its file back in {secret_path()}, or name another --folder"
        )
    if changes := _changes(config, store.get_meta("settings")):
        raise SettingsError(
            f"{store.folder / 'config.yaml'} is not what the run was begun with ({changes}): delete that file, and "
            "--resume writes it again, or name another --folder"
        )


def _changes(config: RunConfig, begun: str | None) -> str:
    if begun is None:
        return ""
    try:
        return differences(without_budgets(config), without_budgets(load_config(None, yaml.safe_load(begun))))
    except SettingsError:  # another release had other settings; what config.yaml says now has been understood
        return ""


def restore_config(folder: Path) -> None:
    """Write a `config.yaml` that was lost again, where the run's store knows what it was."""
    with contextlib.suppress(StoreError), RunStore.open_readonly(folder) as store:
        if settings := store.get_meta("settings"):
            (folder / "config.yaml").write_text(settings, encoding="utf-8")


def _fingerprint() -> str:
    """Tells secrets apart, and is too short to find one by."""
    try:
        return hidden_stream("fingerprint of the secret").bytes(4).hex()
    except SecretError as error:
        raise SettingsError(str(error)) from error
