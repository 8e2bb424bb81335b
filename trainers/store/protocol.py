"""What exploration asks of a store. A dictionary can do it; `store.RunStore` survives being killed."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from atlas_gym.agents.population.candidate import CandidateRecord, Proposal
from atlas_gym.agents.supporters.consult import SupporterCall


class Store(Protocol):
    """Remembers what was written, whole units at a time; a unit is what one group of islands does in one round."""

    def add_unit(
        self, round_: int, group: int, candidates: Iterable[CandidateRecord], summary: Mapping[str, Any],
        proposals: Iterable[Proposal] = (), calls: Iterable[SupporterCall] = (),
    ) -> None:  # fmt: skip
        """Keep a unit, all or nothing; called before anything acts on its candidates."""

    def unit_summary(self, round_: int, group: int) -> dict[str, Any] | None:
        """What was kept of a unit, None if it is still to be done."""

    def unit_candidates(self, round_: int, islands: Iterable[int]) -> list[CandidateRecord]:
        """The candidates of some islands in one round, by id."""

    def candidate(self, candidate_id: int) -> CandidateRecord:
        """One candidate by id; KeyError if there is none."""
        ...
