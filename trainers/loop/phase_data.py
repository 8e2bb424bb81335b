"""What a phase is trained on and judged by: the buffer, G_k set apart from it, the supporter's lessons, and D_k."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from agents.population.candidate import CandidateRecord
from atlas_gym.seeding import stream
from trainers.data.gate_buffer import set_apart
from trainers.data.pair_builder import build_pairs
from trainers.data.pair_pool import pair_pool, writable
from trainers.data.pairs import PreferencePair, ScoredCompletion
from trainers.loop.advisers import PhaseControls
from trainers.loop.config import RunConfig
from trainers.loop.measure import Panel
from trainers.loop.teaching import Teacher
from trainers.store.store import RunStore


class PhaseData:
    """The data of a run's phases, all of it out of the store.

    Args:
        config: the run's configuration.
        store: the run store.
        tokenizer: the policy's, which says how long a completion is.
        teacher: answers the prompts of each phase; None if nobody does.
        panel: asks its own prompts to measure learning; none of them is trained on.
    """

    def __init__(
        self,
        config: RunConfig,
        store: RunStore,
        tokenizer: Any,
        teacher: Teacher | None = None,
        panel: Panel | None = None,
    ):
        self._config = config
        self._store = store
        self._tokenizer = tokenizer
        self._teacher = teacher
        self._panel = panel

    def buffer(self, number: int, last: int) -> tuple[list[ScoredCompletion], list[ScoredCompletion]]:
        """What D_k may be made of (the completions of the whole run so far: the data are cumulative, Algorithm 1), and
        the preferred completion of each prompt of G_k.

        G_k is drawn before anybody teaches, so that it is the same when the phase is done again.
        """
        pool = self._pool(number, last, self._store.lessons(number - 1))
        rng = stream(self._config.seed, "gate prompts", number)
        return set_apart(pool, self._config.gate.prompts, rng)

    def taught(
        self, number: int, first: int, last: int, gate: Sequence[ScoredCompletion]
    ) -> list[ScoredCompletion]:
        """The buffer with the phase's lessons, on prompts of the rounds `first` to `last`; G_k's prompts left out."""
        apart = {completion.prompt for completion in gate}
        if self._teacher is not None:
            self._teacher.teach(number, first, last, apart)
        pool = self._pool(number, last, self._store.lessons(number))
        return [completion for completion in pool if completion.prompt not in apart]

    def pairs(
        self, number: int, first: int, completions: Sequence[ScoredCompletion], controls: PhaseControls
    ) -> list[PreferencePair]:
        """D_k out of the buffer; the present policy has written since the round `first`."""
        config = self._config
        rejected = Counter(
            id_
            for earlier in range(1, number)
            for id_ in {pair["rejected_id"] for pair in self._store.phase_pairs(earlier)}
        )
        settings, rng = controls.pairs(config.pairs), stream(config.seed, "pairs", number)
        fresh_from = config.exploration.candidate_id(first, 0, 0)
        return build_pairs(completions, settings, rng, rejected, fresh_from)

    def origins(self, pairs: Sequence[PreferencePair]) -> dict[str, int]:
        """How many pairs choose what the agent wrote, and how many what a supporter wrote."""
        return dict(Counter(self._store.candidate(pair.chosen_id).origin for pair in pairs))

    def _pool(self, number: int, last: int, lessons: Sequence[CandidateRecord]) -> list[ScoredCompletion]:
        config = self._config
        rng = stream(config.seed, "pair pool", number)
        pool = pair_pool(self._store, last, config.pairs.pool, rng, config.messages, lessons)
        asked = self._panel.prompts if self._panel else ()
        return [c for c in writable(pool, self._tokenizer, config.sampling) if c.prompt not in asked]
