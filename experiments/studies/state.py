"""What a sweep remembers: one row per run, written before the run is started."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from experiments.studies.parameters import SweepError

State = Literal["running", "finished", "stopped", "failed"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sweep (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    number INTEGER PRIMARY KEY, parameters TEXT NOT NULL, state TEXT NOT NULL, history TEXT NOT NULL, value REAL,
    note TEXT NOT NULL
);
"""


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep."""

    number: int
    """From 0 in the order in which runs were begun."""
    parameters: Mapping[str, Any]
    """Its configuration."""
    state: State
    """`running` also of a run that was under way when the sweep was killed."""
    history: tuple[float, ...] = ()
    """The metric, an iteration each."""
    value: float | None = None
    """What the run came to."""
    note: str = ""
    """Why it was stopped or failed."""


class SweepStore:
    """The sweep's database.

    Args:
        folder: the sweep's folder; made if it is missing.
        text: the sweep file; a folder that was begun with another one is refused.
        seed: likewise.

    Raises:
        SweepError: the folder belongs to another sweep, or another process is running this one.
    """

    def __init__(self, folder: Path, text: str, seed: int):
        folder.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(folder / "sweep.sqlite", isolation_level=None, timeout=1)
        try:
            self._claim(folder)
            self._remember(folder, {"sweep file": text, "seed": str(seed)})
        except SweepError:
            self._db.close()
            raise

    def _claim(self, folder: Path) -> None:
        # SQLite's exclusive mode keeps its lock until the database is closed, or the process is gone.
        self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
        try:
            self._db.execute("BEGIN EXCLUSIVE")
            for statement in filter(str.strip, _SCHEMA.split(";")):
                self._db.execute(statement)
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise SweepError(f"another process is running the sweep in {folder}") from error

    def _remember(self, folder: Path, identity: Mapping[str, str]) -> None:
        for key, value in identity.items():
            self._db.execute("INSERT OR IGNORE INTO sweep VALUES (?, ?)", (key, value))
            if self._db.execute("SELECT value FROM sweep WHERE key = ?", (key,)).fetchone()[0] != value:
                raise SweepError(f"{folder} was begun with another {key}; name another folder with --folder")

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def runs(self) -> list[SweepRun]:
        """Every run, in order."""
        return list(self._rows())

    def _rows(self) -> Iterator[SweepRun]:
        for number, parameters, state, history, value, note in self._db.execute(
            "SELECT * FROM runs ORDER BY number"
        ):
            yield SweepRun(number, json.loads(parameters), state, tuple(json.loads(history)), value, note)

    def put(self, run: SweepRun) -> None:
        """Store a run, new or changed."""
        self._db.execute(
            "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)",
            (run.number, json.dumps(run.parameters), run.state, json.dumps(run.history), run.value, run.note),
        )
