"""The run store's tables and its file, and candidates as their rows."""

import json
import sqlite3
from pathlib import Path
from typing import Any

from atlas_gym.agents.population.candidate import Candidate

SCHEMA_VERSION = 3

_CANDIDATE = """
    id INTEGER PRIMARY KEY, round INTEGER NOT NULL, island INTEGER NOT NULL, origin TEXT NOT NULL,
    style TEXT NOT NULL, site TEXT NOT NULL, parent_id INTEGER, completion TEXT NOT NULL, program TEXT NOT NULL,
    program_key TEXT, status TEXT NOT NULL, score REAL, detail TEXT NOT NULL, metrics TEXT NOT NULL,
    parent_score REAL, is_copy INTEGER NOT NULL, duplicate_of INTEGER, prompted INTEGER NOT NULL,
    diagnosis TEXT NOT NULL, evaluated INTEGER NOT NULL, phase INTEGER
"""

SCHEMA = f"""
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS prompts (
    round INTEGER, island INTEGER, site INTEGER, prompt TEXT NOT NULL, proposal TEXT NOT NULL,
    PRIMARY KEY (round, island, site)
);
CREATE TABLE IF NOT EXISTS candidates ({_CANDIDATE});
CREATE INDEX IF NOT EXISTS candidates_by_round ON candidates (round, island);
CREATE TABLE IF NOT EXISTS rounds (round INTEGER PRIMARY KEY, summary TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS phases (
    phase INTEGER PRIMARY KEY, round INTEGER NOT NULL, promoted INTEGER NOT NULL, result TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS pairs (
    phase INTEGER, idx INTEGER, kind TEXT NOT NULL, chosen_id INTEGER NOT NULL, rejected_id INTEGER NOT NULL,
    margin REAL NOT NULL, site TEXT NOT NULL, prompt TEXT NOT NULL, chosen TEXT NOT NULL, rejected TEXT NOT NULL,
    PRIMARY KEY (phase, idx)
);
CREATE TABLE IF NOT EXISTS exams (phase INTEGER PRIMARY KEY, result TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS held_out (program_key TEXT PRIMARY KEY, result TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS supporter_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT, round INTEGER, phase INTEGER, role TEXT NOT NULL, call TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS calls_by_phase ON supporter_calls (phase) WHERE phase IS NOT NULL;
"""

CANDIDATE_COLUMNS = tuple(column.split()[0] for column in _CANDIDATE.split(","))
_KINDS = {"INTEGER": int, "REAL": float, "TEXT": str}
_STORED = tuple(
    (_KINDS[column.split()[1]], *(() if "NOT NULL" in column or "KEY" in column else (type(None),)))
    for column in _CANDIDATE.split(",")
)
"""Types of each of these columns."""

PAIR_FIELDS = ("kind", "chosen_id", "rejected_id", "margin", "site", "prompt", "chosen", "rejected")
"""Columns of a pair behind its phase and its number, and fields of `PreferencePair`."""


class StoreError(RuntimeError):
    """The run folder cannot be used as asked; the message names the way out."""


class DamagedRow(StoreError, ValueError):
    """A row holds what no run has written."""


def damaged(found: object, wanted: str) -> DamagedRow:
    """The error for a row that does not hold what is wanted."""
    return DamagedRow(
        f"run.sqlite is damaged, it holds {str(found)[:40]!r} where {wanted} belongs: put a copy of the run's folder "
        "back, or begin anew in another --folder."
    )


def from_json(text: str) -> Any:
    """A value as a row holds it; raises :class:`DamagedRow`."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(text, f"JSON ({error})") from error


def mapping(text: str) -> dict[str, Any]:
    """As `from_json`, of a row that holds a mapping."""
    value = from_json(text)
    if not isinstance(value, dict):
        raise damaged(text, "a mapping")
    return value


def candidate_row(record: Candidate, site: int = 1, phase: int | None = None) -> tuple:
    """A candidate as a row of `CANDIDATE_COLUMNS`. `site`: number of its prompt among those of its island's round;
    `phase`: for which a supporter wrote it."""
    values = dict(vars(record), phase=phase)
    values["metrics"] = json.dumps(dict(record.metrics))
    values |= {"is_copy": int(record.is_copy), "evaluated": int(record.evaluated)}
    values["prompted"] = site if record.prompt else 0
    return tuple(values[name] for name in CANDIDATE_COLUMNS)


def candidate_from_row(row: tuple) -> Candidate:
    """A candidate from a row of `CANDIDATE_COLUMNS` and its prompt."""
    values = dict(zip((*CANDIDATE_COLUMNS, "prompt"), row, strict=True))
    for name, kinds in zip(CANDIDATE_COLUMNS, _STORED, strict=True):
        if type(values[name]) not in kinds:
            raise damaged(values[name], f"a candidate's {name}")
    values["prompt"] = values["prompt"] or ""
    values["metrics"] = mapping(values["metrics"])
    values |= {"is_copy": bool(values["is_copy"]), "evaluated": bool(values["evaluated"])}
    del values["prompted"], values["phase"]
    return Candidate(**values)


def make_file(path: Path) -> None:
    """An empty store, in its place only once it is whole: a reader in between would keep the journal from changing.

    Raises :class:`sqlite3.DatabaseError` where a journal has outlived its store: it would be read into the new one.
    """
    if path.with_name("run.sqlite-wal").exists():
        raise sqlite3.DatabaseError("it is gone, and its journal run.sqlite-wal is not: put it back")
    beginning = path.with_name("run.sqlite.new")
    for left in ("", "-wal", "-shm"):  # by a process that was killed here
        beginning.with_name(beginning.name + left).unlink(missing_ok=True)
    db = sqlite3.connect(beginning)
    db.execute("PRAGMA journal_mode=WAL")
    db.executescript(SCHEMA)
    db.execute("INSERT INTO meta VALUES ('schema_version', ?)", (json.dumps(SCHEMA_VERSION),))
    db.commit()
    db.close()
    beginning.replace(path)
