"""A driver that loads the program and says so: for the doctor, and for measuring how fast workers start."""

from collections.abc import Callable
from typing import Any

LOADED = b"\1"


def serve(load: Callable[[], Callable[..., Any]], pipe: Any) -> None:
    """Load the program once, report it, and be done."""
    load()
    pipe.send(LOADED)
