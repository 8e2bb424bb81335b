"""The run store: one SQLite file that holds everything a run decided, written before it is acted on.

A run is a folder; `run.sqlite` in it is the only truth about its progress. Every step of the loop either
finds its result here (a resumed run) or makes it and stores it in one transaction (a fresh one), so that a
process killed at any moment loses at most the step it was in, and never counts a step twice. Ids are
arithmetic (see `candidate_id`), not handed out by the database: a repeated insert meets the row it repeats.

WAL journal, `synchronous=FULL`: a committed row survives a power cut. A lock file keeps a second writer out;
readers (the report of a run under way) need no lock and block nobody.
"""

import fcntl
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.trainers.store.folder import refuse_links
from atlas_gym.trainers.store.queries import StoreQueries
from atlas_gym.trainers.store.rows import (
    PAIR_FIELDS,
    SCHEMA,
    SCHEMA_VERSION,
    StoreError,
    candidate_row,
    make_file,
)

_LONGEST_VALUE = 2**26
"""Bytes of the longest value that is read of a store: 64 MiB, far above any program or result."""


class RunStore(StoreQueries):
    """A run's database and its folder, which is made if it is missing. Raises `StoreError` if the folder cannot be
    written to, another process holds the run, or the file is no run store of this version."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            refuse_links(self.folder)
            self._lock = self._acquire_lock()
        except OSError as error:
            raise StoreError(
                f"The run folder {self.folder} cannot be made or written to ({error.strerror}); name another one with "
                "--folder."
            ) from error
        try:
            path = self.folder / "run.sqlite"
            if not path.exists():
                make_file(path)
            self._db = sqlite3.connect(path, isolation_level=None)
            _require_plain_tables(self._db, path)
            self._db.execute("PRAGMA synchronous=FULL")
            (said,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
            if said != "ok":  # a damaged page is found before anything is added, not rounds later
                raise sqlite3.DatabaseError(" ".join(said.split()))
            self._db.executescript(SCHEMA)
            self._check_version()
        except (sqlite3.DatabaseError, ValueError) as error:
            self._lock.close()
            raise StoreError(
                f"{self.folder / 'run.sqlite'} cannot be read as a run store ({error}): free some space if the disk is "
                "full, allow writing if it is read-only, else move the folder away or name another one with --folder."
            ) from error

    @classmethod
    def open_readonly(cls, folder: Path) -> "RunStore":
        """A store to look at, of a finished run or of one under way: it shows the moment at which it was opened. Raises
        `StoreError` if there is no run store of this version in the folder."""
        store = cls.__new__(cls)
        store.folder, store._lock = Path(folder), None
        path = store.folder / "run.sqlite"
        if not path.is_file():
            raise StoreError(f"{folder} holds no run: there is no run.sqlite in it.")
        refuse_links(store.folder)
        try:
            store._db = _connect_readonly(path)
            _require_plain_tables(store._db, path)
            store._check_version()
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(f"{path} cannot be read as a run store ({error}).") from error
        return store

    def _acquire_lock(self):
        lock = open(self.folder / ".lock", "a")  # noqa: SIM115 (held open for the store's life)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise StoreError(f"Another process is using {self.folder}; wait or stop it first.") from None
        return lock

    def _check_version(self) -> None:
        version = self.get_meta("schema_version")
        if version != SCHEMA_VERSION:
            way = "resume it with the release that wrote it" if version else "it is empty: move it away"
            raise StoreError(
                f"{self.folder} was written with store version {version!r}, this is version {SCHEMA_VERSION}; {way}."
            )

    def phase_folder(self, phase: int) -> Path:
        """Where a phase's adapters are."""
        return self.folder / "adapters" / f"phase-{phase:03d}"

    def close(self) -> None:
        """Close the database and let go of the folder."""
        self._db.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> "RunStore":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the block's writes, or none of them and `StoreError` (a full disk, say)."""
        try:
            with self._db:  # whatever ends the block, Ctrl-C included, leaves no half of it
                self._db.execute("BEGIN IMMEDIATE")
                yield
        except sqlite3.OperationalError as error:
            raise StoreError(
                f"Writing to {self.folder} failed ({error}). Nothing stored so far is lost: free some space, "
                "or allow writing if it is read-only, and run the same command with --resume."
            ) from error

    def _insert(self, table: str, rows: Iterable[tuple]) -> None:
        for row in rows:
            self._db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def set_meta(self, key: str, value: Any) -> None:
        """Store a small JSON value under a key."""
        with self.transaction():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def set_instances(self, count: int) -> None:
        """How many instances of the task the islands have, in turn; 1 unless set."""
        if count > 1:
            self.set_meta("instances", count)

    def add_round(
        self,
        round_: int,
        candidates: Iterable[Candidate],
        summary: Mapping[str, Any],
        proposals: Iterable[Proposal] = (),
        calls: Iterable[SupporterCall] = (),
    ) -> None:
        """Store a round, all or nothing; 0 is that of the starting programs. `summary` holds plain values."""
        records = list(candidates)
        sites: dict[tuple[int, str], int] = {}
        prompts, asked = [], Counter[int]()
        for p in proposals:
            asked[p.island] += 1
            sites[p.island, p.prompt] = asked[p.island]
            # The prompt has a column of its own, the texts are not needed again.
            row = json.dumps({k: v for k, v in vars(p).items() if k not in ("prompt", "texts")})
            prompts.append((round_, p.island, asked[p.island], p.prompt, row))
        rows = [candidate_row(record, sites.get((record.island, record.prompt), 1)) for record in records]
        with self.transaction():
            self._insert("prompts", prompts)
            self._insert("candidates", rows)
            self._insert("rounds", [(round_, json.dumps(summary))])
            self._insert_calls(calls, round_, None)

    def add_taught(
        self, phase: int, round_: int, written: Iterable[Candidate], calls: Iterable[SupporterCall]
    ) -> None:
        """Store what a supporter wrote for a phase after the round `round_`. A candidate has the round and the island
        of the prompt that it answers, and an id below -1."""
        query = "SELECT site FROM prompts WHERE round = ? AND island = ? AND prompt = ?"
        rows = []
        for record in written:
            (site,) = self._db.execute(query, (record.round, record.island, record.prompt)).fetchone() or (1,)
            rows.append(candidate_row(record, site, phase))
        with self.transaction():
            self._insert("candidates", rows)
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('taught', ?)", (json.dumps(phase),))
            self._insert_calls(calls, round_, phase)

    def add_phase(
        self,
        phase: int,
        round_: int,
        promoted: bool,
        result: Mapping[str, Any],
        pairs: Iterable[Any],
        calls: Iterable[SupporterCall] = (),
    ) -> None:
        """Store a finished fine-tuning phase together with its pairs and consultations."""
        rows = [(phase, i, *(getattr(pair, name) for name in PAIR_FIELDS)) for i, pair in enumerate(pairs)]
        with self.transaction():
            self._insert("pairs", rows)
            self._insert("phases", [(phase, round_, int(promoted), json.dumps(result))])
            self._insert_calls(calls, round_, phase)

    def add_exam(self, phase: int, result: Mapping[str, Any]) -> None:
        """Store the answers to the exam that the policy gave after a phase, in the place of those of a phase that was
        killed before it was stored."""
        with self.transaction():
            self._db.execute("DELETE FROM exams WHERE phase = ?", (phase,))
            self._insert("exams", [(phase, json.dumps(result))])

    def begin_like(self, other: "RunStore", last: int) -> None:
        """Take over another run's rounds up to `last` into a store that has none, and its confirmations."""
        self.set_instances(other.instances)
        with self.transaction():
            for table in ("prompts", "candidates", "rounds"):
                known = "AND phase IS NULL" if table == "candidates" else ""
                query = f"SELECT * FROM {table} WHERE round <= ? {known}"
                self._insert(table, other._db.execute(query, (last,)))
            calls = "SELECT NULL, round, phase, role, call FROM supporter_calls WHERE round <= ? AND phase IS NULL"
            self._insert("supporter_calls", other._db.execute(f"{calls} ORDER BY id", (last,)))
            self._insert("held_out", other._db.execute("SELECT * FROM held_out"))

    def add_held_out(self, key: str, result: Mapping[str, Any]) -> None:
        """Store a confirmation on held-out seeds under its `held_out_key`."""
        with self.transaction():
            self._db.execute("INSERT OR REPLACE INTO held_out VALUES (?, ?)", (key, json.dumps(result)))

    def _insert_calls(self, calls: Iterable[SupporterCall], round_: int, phase: int | None) -> None:
        rows = [(None, round_, phase, call.role, json.dumps(vars(call))) for call in calls]
        self._insert("supporter_calls", rows)


def _connect_readonly(path: Path) -> sqlite3.Connection:
    """A connection inside one read transaction."""
    # Where the WAL can have no index (read-only media) the file is read as it is: nobody can be writing it.
    indexed = os.access(path.parent, os.W_OK) or path.with_name(path.name + "-shm").exists()
    options = "mode=ro" if indexed else "mode=ro&immutable=1"
    db = sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True, isolation_level=None)
    db.execute("BEGIN")
    return db


def _require_plain_tables(db: sqlite3.Connection, path: Path) -> None:
    """A stranger's file may compute where a run stores: a recursive view in the place of a table never ends."""
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
    db.execute("PRAGMA trusted_schema = OFF")
    for kind, name, sql in db.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        plain = kind in ("table", "index") and not str(sql).upper().startswith("CREATE VIRTUAL")
        hidden = db.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden", (name,)).fetchall()
        if hidden or not plain:
            raise StoreError(f"{path} holds more than a run's tables: no run has written the {kind} {name}.")
