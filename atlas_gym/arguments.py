"""Arguments of the commands: options by their whole names, and numbers that would do nothing refused."""

import argparse
import math
import os
import sys
from typing import Any


class Parser(argparse.ArgumentParser):
    """A parser that guesses no option from its beginning: a wrong guess could start hours of work."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})


def at_least_one(text: str) -> int:
    """A whole number of at least 1."""
    return _within(text, 1, None)


def port(text: str) -> int:
    """A port to listen on; 0 takes a free one."""
    return _within(text, 0, 2**16 - 1)


def seconds(text: str) -> float:
    """A time to wait: above 0, and one that comes to an end."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of seconds above 0")
    return number


def _within(text: str, low: int, high: int | None) -> int:
    number = int(text) if text.removeprefix("-").isdecimal() else None
    if number is None or number < low or (high is not None and number > high):
        limits = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number {limits}")
    return number


def flush_or_drop() -> None:
    """Write what the standard output holds; drop it where nobody takes it, lest Python try again in the end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
