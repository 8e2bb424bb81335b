"""Random streams that a program cannot recompute from the seed.

From `default_rng(s)` a program that knows the seed and this package's source could redraw the hidden parameters inside
its worker. So every hidden stream is derived by HMAC-SHA256 from its labels *under a secret*: the argument `secret`,
else the environment variable ATLAS_GYM_SECRET, else a file in the user's state directory
($XDG_STATE_HOME/atlas-gym/secret, readable by the user only), made at first use. Workers get neither the variable nor,
being confined, the file. The secret "public" gives streams that are the same on every machine, and guessable: use it to
reproduce figures, not to score programs you do not trust.
"""

import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from atlas_gym.cache import xdg_folder

SECRET_VARIABLE = "ATLAS_GYM_SECRET"
PUBLIC = "public"


class SecretError(RuntimeError):
    """The machine's secret can be neither read nor made; the message names the way out."""


def hidden_stream(*labels: str | int, secret: str | None = None) -> np.random.Generator:
    """The random stream named by `labels`, e.g. `hidden_stream("bandit", "train", seed, replica, "noise")`.

    Different labels give independent streams; 1 and "1" differ, and so do ("ab",) and ("a", "b").
    Raises `TypeError` for a label that is neither text nor a whole number.
    """
    message = b"".join(_encode(label) for label in labels)
    key = secret.encode() if secret is not None else _secret()
    digest = hmac.new(key, message, hashlib.sha256).digest()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest, "big"))))


def secret_path() -> Path:
    """Where the machine's secret lies if no variable names one; SecretError for a user without a home folder."""
    try:
        return xdg_folder("XDG_STATE_HOME", ".local/state", SECRET_VARIABLE) / "atlas-gym" / "secret"
    except OSError as error:
        raise SecretError(str(error)) from error


def marks(texts: Iterable[str]) -> set[str]:
    """What nobody but this user can have made of these texts: authentication codes under a key that lies beside the
    secret and that no variable replaces; none where it cannot be kept."""
    try:
        key = _secret_from_file(secret_path().with_name("marks"))
    except SecretError:
        return set()
    return {
        hmac.new(key, text.encode(errors="surrogateescape"), hashlib.sha256).hexdigest() for text in texts
    }


def secret_in_force() -> str:
    """The secret that this process draws its streams under, for trusted processes that are to draw the same.

    Set as ATLAS_GYM_SECRET there. It must reach no worker, no log and no file that others can read.
    """
    return os.fsdecode(_secret())


def _encode(label: str | int) -> bytes:
    """Type and length go before the text, so that no two lists of labels have the same encoding."""
    if isinstance(label, str):
        kind, text = b"s", label.encode()
    elif isinstance(label, int | np.integer) and not isinstance(label, bool):
        kind, text = b"i", str(int(label)).encode()
    else:
        raise TypeError(f"labels are text or whole numbers, got {label!r}")
    return kind + len(text).to_bytes(8, "big") + text


def _secret() -> bytes:
    from_environment = os.environ.get(SECRET_VARIABLE)
    # The bytes that the shell gave, whatever the locale makes of them.
    return os.fsencode(from_environment) if from_environment else _secret_from_file(secret_path())


@cache
def _secret_from_file(path: Path) -> bytes:
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Under a temporary name first, so that other processes see a whole secret or none.
            descriptor, name = tempfile.mkstemp(dir=path.parent)  # of mode 0600
            try:
                with os.fdopen(descriptor, "w") as file:
                    file.write(secrets.token_hex(32))
                os.link(name, path)
            except FileExistsError:
                pass  # another process was first; its secret counts
            finally:
                os.unlink(name)
        secret = path.read_bytes()
    except OSError as error:
        raise SecretError(
            f"cannot keep the secret of the hidden streams in {path} ({error.strerror}); "
            f"set {SECRET_VARIABLE} to a text of your own"
        ) from error
    if not secret.strip():  # a full disk, a crash: streams under it could be guessed
        raise SecretError(
            f"the secret of the hidden streams in {path} is empty; delete the file for a new one"
        )
    return secret
