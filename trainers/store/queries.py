"""What a run store can be asked; the writing half is `trainers.store.store`."""

import sqlite3
from collections.abc import Generator, Iterable, Iterator
from functools import cached_property
from typing import Any

from atlas_gym.agents.population.candidate import CandidateRecord, Proposal
from atlas_gym.trainers.store.rows import (
    CANDIDATE_COLUMNS,
    PAIR_FIELDS,
    candidate_from_row,
    from_json,
    mapping,
)

COLUMNS = ", ".join(f"c.{name}" for name in CANDIDATE_COLUMNS)


def held_out_key(record: CandidateRecord, instances: int) -> str:
    """Under what a candidate's confirmation is stored: its program, and the instance that it was written for."""
    instance = record.island % instances
    return f"{record.program_key}@{instance}" if instance else record.program_key or ""


class StoreQueries:
    """Everything that reads, of a run under way and of a finished one."""

    _db: sqlite3.Connection

    def _mapping(self, query: str, *args: Any) -> dict[str, Any] | None:
        """The mapping that a query finds, or None."""
        row = self._db.execute(query, args).fetchone()
        return None if row is None else mapping(row[0])

    def get_meta(self, key: str, default: Any = None) -> Any:
        """The value stored under a key, or the default."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        found = None if row is None else from_json(row[0])
        return default if found is None else found

    def unit_summary(self, round_: int, group: int) -> dict[str, Any] | None:
        """What was recorded of a unit, or None if it is still to be done."""
        return self._mapping("SELECT summary FROM units WHERE round = ? AND grp = ?", round_, group)

    def unit_candidates(self, round_: int, islands: Iterable[int]) -> list[CandidateRecord]:
        """The candidates of some islands in one round, by id."""
        wanted = sorted(islands)
        marks = ", ".join("?" * len(wanted))
        return list(self.candidates(f"WHERE c.round = ? AND c.island IN ({marks})", (round_, *wanted)))

    def candidates(self, where: str = "", args: tuple = ()) -> Iterator[CandidateRecord]:
        """Candidates by id, read as they are asked for; `where` is an SQL condition over `c` (candidates)."""
        return self._records("candidates", where, args)

    def lessons(self, last: int) -> list[CandidateRecord]:
        """What supporters taught before the phases up to `last`, in order."""
        if not self.taught():
            return []
        return list(self._records("lessons", "WHERE c.phase <= ?", (last,)))[::-1]

    def last_lesson(self) -> int:
        """Id of the latest lesson; -1 if there is none."""
        query = "SELECT coalesce(min(id), -1) FROM lessons"
        return self._db.execute(query).fetchone()[0] if self.taught() else -1

    def taught(self) -> int:
        """The last phase before which a supporter taught; 0 if there is none."""
        return self.get_meta("taught", 0)

    def _records(self, table: str, where: str, args: tuple) -> Iterator[CandidateRecord]:
        query = (
            f"SELECT {COLUMNS}, p.prompt FROM {table} c "
            f"LEFT JOIN prompts p ON p.site = c.prompted AND p.round = c.round AND p.island = c.island {where} "
            "ORDER BY c.id"
        )
        prompt = ""
        for *row, text in self._db.execute(query, args):
            # Neighbours share their prompt: kept once, however many of them the caller keeps.
            prompt = prompt if text == prompt else text or ""
            yield candidate_from_row((*row, prompt))

    def outcomes(self) -> Generator[tuple, None, None]:
        """(id, round, island, parent, score, duplicate_of) of every candidate by id: for whoever has to look
        at all of them and needs the text of few."""
        yield from self._db.execute(
            "SELECT id, round, island, parent_id, score, duplicate_of FROM candidates ORDER BY id"
        )

    @cached_property
    def instances(self) -> int:
        """Instances of the task that the islands have, in turn."""
        return self.get_meta("instances", 1)

    def best_candidates(self, limit: int, island: int | None = None) -> list[CandidateRecord]:
        """The different candidates with the highest training scores under the run's last task, best first, the earliest
        of equals. With several instances those that lie furthest above their island's start; or those of one
        `island`'s instance."""
        began = self.task_began()
        instance = "" if island is None else f"AND island % {self.instances} = {island % self.instances}"
        rows = self._db.execute(
            "SELECT id, score - (SELECT s.score FROM candidates s WHERE s.round = ? AND s.island = c.island "
            "ORDER BY s.id LIMIT 1) AS rise FROM candidates c "
            "WHERE score IS NOT NULL AND duplicate_of IS NULL AND round >= ? "
            f"{instance} "
            "ORDER BY rise DESC, score DESC, id LIMIT ?",
            (began, began, limit),
        )
        return [self.candidate(id_) for id_, _ in rows.fetchall()]

    def candidate(self, candidate_id: int) -> CandidateRecord:
        """One candidate by id, or one lesson (their ids are negative).

        Raises:
            KeyError: there is none of that id.
        """
        table = "lessons" if candidate_id < 0 and self.taught() else "candidates"
        for record in self._records(table, "WHERE c.id = ?", (candidate_id,)):
            return record
        raise KeyError(candidate_id)

    def proposal(self, round_: int, island: int, prompt: str | None = None) -> Proposal:
        """What an island was asked in a round, at its first edit site or with this prompt; KeyError if nothing was."""
        row = self._db.execute(
            "SELECT prompt, proposal FROM prompts WHERE round = ? AND island = ? AND prompt = coalesce(?, prompt) "
            "ORDER BY site",
            (round_, island, prompt),
        ).fetchone()
        if row is None:
            raise KeyError(f"island {island} was asked nothing of the kind in round {round_}")
        return Proposal(**{**mapping(row[1]), "prompt": row[0]})

    def asked(self, last: int) -> list[tuple[int, int, str]]:
        """(round, island, prompt) of everything asked up to the round `last`, in order."""
        query = "SELECT round, island, prompt FROM prompts WHERE round <= ? ORDER BY round, island, site"
        return list(self._db.execute(query, (last,)))

    def count(self, table: str) -> int:
        """Number of rows of a table."""
        return self._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    def task_began(self, last: int | None = None) -> int:
        """The round since which scores are comparable to those of the round `last` (default: the last there is):
        where the task changed last, 0 if it never did."""
        query = "SELECT max(round) FROM candidates WHERE origin = 'carried' AND round <= ?"
        return self._db.execute(query, (self.last_round() if last is None else last,)).fetchone()[0] or 0

    def start(self, last: int | None = None, island: int = 0) -> CandidateRecord:
        """The starting program of an island's instance as the task of the round `last` scores it."""
        where = "WHERE c.round >= ? AND c.island % ? = ?"
        args = (self.task_began(last), self.instances, island % self.instances)
        return next(self.candidates(where, args))

    def ends(self) -> list[tuple[CandidateRecord, CandidateRecord]]:
        """The starting and the best program of each instance; none before a program has run."""
        bests = [best for number in range(self.instances) for best in self.best_candidates(1, number)]
        return [(self.start(island=best.island), best) for best in bests]

    def best_scores(self, first: int, last: int) -> dict[int, float]:
        """The best score of the rounds `first` to `last` by instance, of those that have one."""
        query = (
            "SELECT island % ?, max(score) FROM candidates "
            "WHERE round BETWEEN ? AND ? AND score IS NOT NULL GROUP BY 1"
        )
        return dict(self._db.execute(query, (self.instances, first, last)))

    def candidate_counts(self) -> dict[str, Any]:
        """Sampled candidates, different programs among them, and the share that was valid; not the programs that the
        run started from, nor those carried over to another task."""
        total, valid, different = self._db.execute(
            "SELECT count(*), coalesce(sum(status = 'ok'), 0), coalesce(sum(duplicate_of IS NULL), 0) "
            "FROM candidates WHERE origin NOT IN ('seed', 'carried')"
        ).fetchone()
        return {"candidates": total, "evaluated": different, "valid_share": valid / total if total else 0.0}

    def unit_summaries(self, first: int = 0) -> list[dict[str, Any]]:
        """Every finished unit's summary from the round `first` on, in order of round and group."""
        rows = self._db.execute("SELECT summary FROM units WHERE round >= ? ORDER BY round, grp", (first,))
        return [mapping(row[0]) for row in rows]

    def last_round(self) -> int:
        """The last round of which a unit is stored; 0 if there is none."""
        return self._db.execute("SELECT max(round) FROM units").fetchone()[0] or 0

    def phases(self) -> list[dict[str, Any]]:
        """Every finished phase's result, in order."""
        return [mapping(row[0]) for row in self._db.execute("SELECT result FROM phases ORDER BY phase")]

    def tuned_phases(self) -> list[dict[str, Any]]:
        """The results of those that were not skipped."""
        return [phase for phase in self.phases() if not phase.get("skipped")]

    def pairs(self) -> Iterator[sqlite3.Row]:
        """Every stored preference pair as (phase, idx, kind, chosen_id, rejected_id, margin, hole, ...)."""
        yield from self._db.execute("SELECT * FROM pairs ORDER BY phase, idx")

    def phase_pairs(self, phase: int) -> list[dict[str, Any]]:
        """The pairs a phase was trained on, in their order; keys are the fields of `PreferencePair`."""
        query = f"SELECT {', '.join(PAIR_FIELDS)} FROM pairs WHERE phase = ? ORDER BY idx"
        return [dict(zip(PAIR_FIELDS, row, strict=True)) for row in self._db.execute(query, (phase,))]

    def probe(self, phase: int, moment: str) -> dict[str, Any] | None:
        """A stored probe's result, or None."""
        return self._mapping("SELECT result FROM probes WHERE phase = ? AND moment = ?", phase, moment)

    def probes(self) -> dict[tuple[int, str], dict[str, Any]]:
        """Every stored probe by phase and moment, in that order."""
        rows = self._db.execute("SELECT phase, moment, result FROM probes ORDER BY phase, rowid")
        return {(phase, moment): mapping(result) for phase, moment, result in rows}

    def held_out(self, key: str) -> dict[str, Any] | None:
        """A stored confirmation by its `held_out_key`, or None."""
        return self._mapping("SELECT result FROM held_out WHERE program_key = ?", key)

    def supporter_calls(self, phase: int | None = None) -> Iterator[dict[str, Any]]:
        """Every stored supporter call, or those of one phase, in order; read as they are asked for."""
        where, args = ("", ()) if phase is None else ("WHERE phase = ?", (phase,))
        query = f"SELECT round, phase, role, call FROM supporter_calls {where} ORDER BY id"
        for r, p, role, call in self._db.execute(query, args):
            yield {"round": r, "phase": p, "role": role, **mapping(call)}
