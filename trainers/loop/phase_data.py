"""What a phase is trained on and judged by: the buffer, G_k set apart from it, the supporter's answers, and D_k."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from atlas_gym.agents.engines.engine import Sampling, Stop
from atlas_gym.agents.models.tokens import encode_continuation, encode_prompt
from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.seeding import stream
from atlas_gym.trainers.data.measures import GAIN_CLIP, grouped, is_improving, thinned
from atlas_gym.trainers.data.pairs import PreferencePair, build_pairs
from atlas_gym.trainers.data.settings import MARGIN, PairSettings
from atlas_gym.trainers.dpo.settings import GateSettings
from atlas_gym.trainers.loop.exam import Exam
from atlas_gym.trainers.loop.resources import Parts
from atlas_gym.trainers.store.queries import StoreQueries

_POOL = 2000
"""Prompts that pairs are formed of before the caps choose, at most: of a longer run so many are drawn, so that a phase
costs the same after a million candidates."""


class PhaseData:
    """The data of a run's phases, all of it out of the store. None of the exam's prompts is trained on."""

    def __init__(self, run: Parts, tokenizer: Any, exam: Exam | None = None):
        self.config, self.store, self._tokenizer, self._exam = run.config, run.store, tokenizer, exam

    def gate_prompts(self, number: int) -> list[str]:
        """The prompts of G_k, drawn before anybody teaches, so that they are the same when the phase is done again."""
        pool = self._pool(number, self.store.taught(number - 1))
        rng = stream(self.config.seed, "gate prompts", number)
        exam = self.config.gate_score == "likelihood"
        return draw_gate_prompts(pool if exam else [r for r in pool if r.passed], self.config.gate, rng)

    def buffer(self, number: int, held_apart: Collection[str]) -> tuple[list[Candidate], list[Candidate]]:
        """What D_k may be made of (what was written and taught in the whole run so far: the data are cumulative,
        Algorithm 1), and the preferred answer to each prompt of G_k."""
        pool = self._pool(number, self.store.taught(number))
        ran = (record for record in pool if record.passed)
        by_prompt = grouped(ran, lambda record: record.prompt)
        gate = [max(by_prompt[x], key=lambda record: record.value) for x in held_apart if x in by_prompt]
        return [record for record in pool if record.prompt not in set(held_apart)], gate

    def known(self, number: int, prompts: Sequence[str]) -> dict[str, list[tuple[str, float]]]:
        """By prompt, the distinct answers that are known to improve and their gains, `GAIN_CLIP` at most; only prompts
        that have one."""
        found: dict[str, dict[str, float]] = {prompt: {} for prompt in prompts}
        for record in self._pool(number, self.store.taught(number)):
            if record.prompt in found and is_improving(record, MARGIN):
                assert record.gain is not None
                found[record.prompt][record.completion] = min(record.gain, GAIN_CLIP)
        return {prompt: list(answers.items()) for prompt, answers in found.items() if answers}

    def pairs(self, number: int, buffer: Sequence[Candidate], settings: PairSettings) -> list[PreferencePair]:
        """D_k out of the buffer."""
        rejected = Counter(
            id_
            for earlier in range(1, number)
            for id_ in {pair["rejected_id"] for pair in self.store.phase_pairs(earlier)}
        )
        # The last round before the policy was tuned last.
        tuned = max((r["round"] for r in self.store.tuned_phases() if r["phase"] < number), default=0)
        return build_pairs(
            buffer, settings, stream(self.config.seed, "pairs", number),
            scale=lambda record: record.island % self.store.instances,
            parent_text=lambda r: self.store.proposal(r.round, r.island, r.prompt).avoid, rejected_before=rejected,
            fresh_from=self.config.exploration.candidate_id(tuned + 1, 0, 0),
        )  # fmt: skip

    def origins(self, examples: Sequence[PreferencePair]) -> dict[str, int]:
        """How many choose what the agent wrote, and how many what a supporter wrote."""
        return dict(Counter(self.store.candidate(example.chosen_id).origin for example in examples))

    def _pool(self, number: int, taught: Sequence[Candidate]) -> list[Candidate]:
        config = self.config
        _, last = config.blocks[number - 1]
        rng = stream(config.seed, "pair pool", number)
        pool = answers(self.store, last, _POOL, rng, taught)
        asked = self._exam.prompts if self._exam else ()
        fitting = writable(pool, self._tokenizer, config.sampling, config.phase.max_tokens)
        return [record for record in fitting if record.prompt not in asked]


def answers(
    store: StoreQueries, last: int, limit: int, rng: np.random.Generator, taught: Iterable[Candidate] = ()
) -> list[Candidate]:
    """Every candidate that answers one of the prompts of the rounds up to `last`, in the order of the prompts; of more
    than `limit` prompts, some at random, each as likely as any other. `taught`: further answers to them."""
    asked = thinned(store.asked(last), limit, rng)
    by_island = grouped(taught, lambda record: (record.round, record.island))
    return [
        record
        for round_, island, prompt in asked
        for record in (*store.round_candidates(round_, island), *by_island.get((round_, island), ()))
        if record.prompt and record.prompt == prompt
    ]


def writable(
    records: Sequence[Candidate], tokenizer: Any, sampling: Sampling, max_tokens: int
) -> list[Candidate]:
    """Those whose completion the policy may write, a line or a function within its limit of tokens, and that a phase
    can train on: at most `max_tokens` with their prompt."""

    @cache
    def room(prompt: str) -> int:
        return max_tokens - len(encode_prompt(tokenizer, prompt))

    def fits(record: Candidate) -> bool:
        stop: Stop = "function" if "\n" in record.completion.strip("\n") else "line"
        length = len(encode_continuation(tokenizer, record.completion))
        return length <= min(sampling.limit(stop), room(record.prompt))

    return [record for record in records if fits(record)]


def draw_gate_prompts(
    records: Sequence[Candidate], settings: GateSettings, rng: np.random.Generator
) -> list[str]:
    """The prompts of the gate and of the training's end, of those that the records answer, each as likely as any other.
    Fewer than two tell nothing about spread: then none is drawn."""
    distinct = list(dict.fromkeys(record.prompt for record in records))
    count = min(settings.prompts + settings.stop_prompts, int(len(distinct) * settings.share))
    return thinned(distinct, count, rng) if count >= 2 else []
