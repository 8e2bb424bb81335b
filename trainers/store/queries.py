"""Queries of a run store; the writing half is `trainers.store.store`."""

import sqlite3
from collections.abc import Generator, Iterator
from functools import cached_property
from typing import Any

from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.trainers.store.rows import (
    CANDIDATE_COLUMNS,
    PAIR_FIELDS,
    candidate_from_row,
    damaged,
    from_json,
    mapping,
)

COLUMNS = ", ".join(f"c.{name}" for name in CANDIDATE_COLUMNS)


def held_out_key(record: Candidate, instances: int) -> str:
    """Under what a candidate's confirmation is stored: its program, and the instance that it was written for."""
    instance = record.island % instances
    return f"{record.program_key}@{instance}" if instance else record.program_key or ""


class StoreQueries:
    """Everything that reads, of a run under way and of a finished one."""

    _db: sqlite3.Connection

    def _mapping(self, query: str, *args: Any) -> dict[str, Any] | None:
        row = self._db.execute(query, args).fetchone()
        return None if row is None else mapping(row[0])

    def get_meta(self, key: str, default: Any = None) -> Any:
        """The value stored under a key, or the default."""
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        found = None if row is None else from_json(row[0])
        return default if found is None else found

    def round_summary(self, round_: int) -> dict[str, Any] | None:
        """A finished round's numbers, None if it is still to be done."""
        return self._mapping("SELECT summary FROM rounds WHERE round = ?", round_)

    def round_candidates(self, round_: int, island: int | None = None) -> list[Candidate]:
        """The candidates of a round by id, those that failed their smoke run included; of one island if it is given."""
        where = "c.phase IS NULL AND c.round = ? AND c.island = coalesce(?, c.island)"
        return list(self._records(where, (round_, island)))

    def candidates(self, where: str = "TRUE", args: tuple = ()) -> Iterator[Candidate]:
        """Exploration's evaluated candidates by id, read as they are asked for; `where`: an SQL condition over `c`."""
        return self._records(f"c.phase IS NULL AND c.evaluated AND {where}", args)

    def taught(self, last: int, first: int = 1) -> list[Candidate]:
        """What a supporter wrote for the phases `first` to `last`, in order."""
        return list(self._records("c.phase BETWEEN ? AND ?", (first, last)))[::-1]

    def last_taught_id(self) -> int:
        """Id of the latest candidate that was written for a phase (they count down from -2); -1 without any."""
        return self._db.execute("SELECT min(coalesce(min(id), -1), -1) FROM candidates").fetchone()[0]

    def _records(self, where: str, args: tuple) -> Iterator[Candidate]:
        query = (
            f"SELECT {COLUMNS}, p.prompt FROM candidates c "
            "LEFT JOIN prompts p ON p.site = c.prompted AND p.round = c.round AND p.island = c.island "
            f"WHERE {where} ORDER BY c.id"
        )
        prompt = ""
        for *row, text in self._db.execute(query, args):
            # Neighbours share their prompt: kept once, however many of them the caller keeps.
            prompt = prompt if text == prompt else text or ""
            yield candidate_from_row((*row, prompt))

    def outcomes(self) -> Generator[tuple, None, None]:
        """(id, round, island, origin, status, score, duplicate_of, end of the error's text, evaluated) of every
        candidate in the order in which they were tried, what was written for a phase behind the rounds before it: for
        whoever has to look at all of them and needs no other text."""
        yield from self._db.execute(
            "SELECT c.id, c.round, c.island, c.origin, c.status, c.score, c.duplicate_of, substr(c.detail, -200), "
            "c.evaluated FROM candidates c LEFT JOIN phases p ON p.phase = c.phase "
            "ORDER BY coalesce(p.round, CASE WHEN c.phase IS NULL THEN c.round END, (SELECT max(round) FROM rounds)), "
            "c.phase IS NOT NULL, abs(c.id)"
        )

    @cached_property
    def instances(self) -> int:
        """Instances of the task that the islands have, in turn."""
        return self.get_meta("instances", 1)

    def best_candidates(self, limit: int, island: int | None = None) -> list[Candidate]:
        """The different candidates with the highest training scores, best first, the earliest of equals. With several
        instances those that lie furthest above their island's start; or those of one `island`'s instance."""
        instance = "" if island is None else f"AND island % {self.instances} = {island % self.instances}"
        rows = self._db.execute(
            "SELECT id, score - (SELECT s.score FROM candidates s WHERE s.round = 0 AND s.island = c.island) AS rise "
            "FROM candidates c WHERE score IS NOT NULL AND duplicate_of IS NULL "
            f"{instance} ORDER BY rise DESC, score DESC, phase, abs(id) LIMIT ?",
            (limit,),
        )
        return [self.candidate(id_) for id_, _ in rows.fetchall()]

    def candidate(self, candidate_id: int) -> Candidate:
        """One candidate by id; raises `KeyError` if there is none."""
        for record in self._records("c.id = ?", (candidate_id,)):
            return record
        raise KeyError(candidate_id)

    def proposal(self, round_: int, island: int, prompt: str | None = None) -> Proposal:
        """Proposal of an island in a round, at its first edit site or with this prompt; KeyError if nothing was."""
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

    def start(self, island: int = 0) -> Candidate:
        """The starting program of an island's instance."""
        for record in self.candidates("c.round = 0 AND c.island = ?", (island % self.instances,)):
            return record
        raise damaged("nothing", f"the start of island {island}")

    def ends(self) -> list[tuple[Candidate, Candidate]]:
        """The starting and the best program of each instance; none before a program has run."""
        most = min(self.instances, self.count("candidates"))  # whatever a stranger's store claims
        bests = [best for number in range(most) for best in self.best_candidates(1, number)]
        return [(self.start(island=best.island), best) for best in bests]

    def best_scores(self, first: int, last: int) -> dict[int, float]:
        """The best score of the rounds `first` to `last` by instance, of those that have one."""
        query = (
            "SELECT island % ?, max(score) FROM candidates "
            "WHERE round BETWEEN ? AND ? AND score IS NOT NULL GROUP BY 1"
        )
        return dict(self._db.execute(query, (self.instances, first, last)))

    def candidate_counts(self) -> dict[str, Any]:
        """Candidates that were to be evaluated, different programs among them (what was executed: the budget of a run),
        and the share that was valid; the starts do not count."""
        total, valid, different = self._db.execute(
            "SELECT count(*), coalesce(sum(status = 'ok'), 0), coalesce(sum(duplicate_of IS NULL), 0) "
            "FROM candidates WHERE origin != 'seed' AND evaluated"
        ).fetchone()
        return {"candidates": total, "evaluated": different, "valid_share": valid / total if total else 0.0}

    def round_summaries(self, first: int = 0) -> list[dict[str, Any]]:
        """Every finished round's numbers from the round `first` on."""
        rows = self._db.execute("SELECT summary FROM rounds WHERE round >= ? ORDER BY round", (first,))
        return [mapping(row[0]) for row in rows]

    def last_round(self) -> int:
        """The last round that is stored; 0 if there is none."""
        return self._db.execute("SELECT max(round) FROM rounds").fetchone()[0] or 0

    def phases(self) -> list[dict[str, Any]]:
        """Every finished phase's result, in order."""
        return [mapping(row[0]) for row in self._db.execute("SELECT result FROM phases ORDER BY phase")]

    def tuned_phases(self) -> list[dict[str, Any]]:
        """The results of those that were not skipped."""
        return [phase for phase in self.phases() if not phase.get("skipped")]

    def phase_pairs(self, phase: int) -> list[dict[str, Any]]:
        """The pairs a phase was trained on, in their order; keys are the fields of `PreferencePair`."""
        query = f"SELECT {', '.join(PAIR_FIELDS)} FROM pairs WHERE phase = ? ORDER BY idx"
        return [dict(zip(PAIR_FIELDS, row, strict=True)) for row in self._db.execute(query, (phase,))]

    def exams(self) -> dict[int, dict[str, Any]]:
        """The answers to the exam by phase; 0 is the model before any phase."""
        rows = self._db.execute("SELECT phase, result FROM exams ORDER BY phase")
        return {phase: mapping(result) for phase, result in rows}

    def held_out(self, key: str) -> dict[str, Any] | None:
        """A stored confirmation by its `held_out_key`, or None."""
        return self._mapping("SELECT result FROM held_out WHERE program_key = ?", key)

    def supporter_calls(self, phase: int | None = None) -> Iterator[dict[str, Any]]:
        """Every stored supporter call, or those of one phase, in order; read as they are asked for."""
        where, args = ("", ()) if phase is None else ("WHERE phase = ?", (phase,))
        query = f"SELECT round, phase, role, call FROM supporter_calls {where} ORDER BY id"
        for r, p, role, call in self._db.execute(query, args):
            yield {"round": r, "phase": p, "role": role, **mapping(call)}
