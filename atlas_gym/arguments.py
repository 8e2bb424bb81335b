"""Arguments of the commands: options by their whole names, and numbers that would do nothing refused."""

import argparse
import os
import sys
from typing import Any

SET: dict[str, Any] = {
    "nargs": "+", "action": "extend", "default": [], "metavar": "NAME=VALUE",
    "help": "constants of the task, such as preset=paper horizon=500",
}  # fmt: skip
"""The option `--set` of every command that makes a task; `constants_from` reads it."""


class Parser(argparse.ArgumentParser):
    """A parser that guesses no option from its beginning, for a wrong guess could start hours of work, and takes
    `--first_seed` for `--first-seed`."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = [word.partition("=") for word in (sys.argv[1:] if args is None else args)]
        words = [(name.replace("_", "-") if name.startswith("--") else name, *rest) for name, *rest in words]
        return super().parse_known_args(["".join(word) for word in words], namespace)


def at_least_one(text: str) -> int:
    """A whole number of at least 1."""
    return _within(text, 1, None)


def port(text: str) -> int:
    """A port to listen on; 0 takes a free one."""
    return _within(text, 0, 2**16 - 1)


def _within(text: str, low: int, high: int | None) -> int:
    number = int(text) if text.removeprefix("-").isdecimal() else None
    if number is None or number < low or (high is not None and number > high):
        limits = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number {limits}")
    return number


def progress(words: str = "") -> None:
    """Tell whoever waits at a terminal what is being done, on a line that the next call clears."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)


def flush_or_drop() -> None:
    """Write what the standard output holds; drop it where nobody takes it, lest Python try again in the end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
