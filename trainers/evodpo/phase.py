"""One fine-tuning phase of EvoDPO: train, collect candidates, choose, let the gate decide, update.

    POLICY ── train on pairs or groups, to a target K̂L ──▶ candidate set C_k: checkpoints, the final policy, and
                                                               policies trained under other settings
    K̂L of each candidate (Eq. 3) and Ŝ of each and of the reference, on a fresh random gate subset G_k
    Eq. 4 proposes one ── Eq. 5 (and the inspector's veto) ──▶ reference rule ──▶ REFERENCE moves or stays

A phase is a function of the policy's two adapters, what it is trained on and the seed. It either completes or leaves
both adapters as they were, so one that was killed is simply run again.

After a promotion the promoted candidate is both the reference and the policy that goes on: the next phase
starts where policy and reference agree. After a refusal the policy goes on as trained, or returns to where
the phase began (`rollback`, and whenever it ended beyond the budget).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.seeding import stream, torch_seed
from trainers.data.groups import Examples
from trainers.evodpo.candidate_set import Tune, TuneJob, tune_all, tune_here
from trainers.evodpo.gate import GateDecision, choose_candidate, gate_decision
from trainers.evodpo.kl import Item
from trainers.evodpo.phase_result import CandidateResult, PhaseResult
from trainers.evodpo.references import ReferenceRule
from trainers.evodpo.settings import GateSettings, PhaseSettings, TrainingSettings

_START = "start"
"""Adapter that remembers the policy as it was before the phase."""

Scorer = Callable[[str, Sequence[str]], Sequence[float]]
"""`score(adapter, prompts)`: the adapter's score at each prompt, higher is better, of fresh completions for example;
prompts that say nothing may be left out, the same ones for every adapter."""

Review = Callable[[GateDecision, Sequence["CandidateResult"]], GateDecision]
"""The policy inspector: may return the decision refused (`GateDecision.refuse`), never promoted."""


def run_phase(
    policy: Policy,
    examples: Examples,
    settings: PhaseSettings,
    gate: GateSettings,
    score: Scorer,
    *,
    phase: int,
    seed: int,
    gate_items: Sequence[Item] | None = None,
    alternatives: Sequence[TrainingSettings] = (),
    review: Review | None = None,
    tune: Tune = tune_here,
) -> PhaseResult:
    """All steps of phase number `phase` (from 1) of the run with that `seed`; see `Phase` and the module's description.

    `examples`: pairs, or groups where the settings' objective is `grpo`.

    `gate_items`: G_k, prompts that no example has, each with its preferred completion; without them G_k is drawn from
    the examples themselves, and Ŝ is then in-sample.

    `alternatives`: other settings under which further members of the candidate set are trained; gated rule only.

    `tune` does the work that costs, in this process unless told otherwise (`trainers.evodpo.launch`).
    `score` is called only under the gated rule, once for the reference and once per candidate. On any
    error, an interrupt included, the policy's adapters are as before.

    Raises:
        ValueError: there are no examples, or none is short enough.
    """
    with Phase(policy, settings, gate, phase, seed) as own:
        own.train(examples, gate_items, alternatives, tune)
        own.score(score)
        own.propose()
        own.decide(review)
        own.advance()
    return own.result


class Phase:
    """A phase under way: its steps, to be taken in this order. A context manager: both adapters move, or neither.

    Args:
        policy: its adapters.
        settings: the phase's.
        gate: Eqs. 4 and 5.
        number: of the phase, from 1.
        seed: the run's.
    """

    def __init__(
        self, policy: Policy, settings: PhaseSettings, gate: GateSettings, number: int, seed: int
    ) -> None:
        self._policy, self._settings, self._gate = policy, settings, gate
        self._number, self._seed = number, seed
        self._gated = settings.reference == "gated"
        self._adapters = ExitStack()
        self._decision: GateDecision | None = None
        self._reference_score: float | None = None

    def __enter__(self) -> Phase:
        self._adapters.enter_context(_all_or_nothing(self._policy))
        if self._settings.initialisation == "base":
            seed = torch_seed(self._seed, "phase", self._number, "adapter") % 2**32
            self._policy.reset(POLICY, seed)
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._adapters.__exit__(*error)

    def train(
        self,
        examples: Examples,
        gate_items: Sequence[Item] | None = None,
        alternatives: Sequence[TrainingSettings] = (),
        tune: Tune = tune_here,
    ) -> None:
        """Eq. 2: DPO on the pairs (or GRPO on the groups) against the reference; Eq. 3: K̂L of all of C_k along G_k.

        Raises:
            ValueError: there are no examples, or none is short enough.
        """
        self._prompts = len({example.prompt for example in examples})
        self._subset = list(gate_items or ()) or gate_subset(
            [(example.prompt, example.chosen) for example in examples],
            self._gate.prompts,
            stream(self._seed, "phase", self._number, "gate"),
        )
        checkpoints = self._settings.checkpoints if self._gated else 0
        job = TuneJob(
            tuple(examples),
            self._settings,
            checkpoints,
            tuple(self._subset),
            self._number,
            self._seed,
            self._gate.max_kl,
        )
        self._tuned = tune_all(self._policy, job, alternatives if self._gated else (), tune)

    def score(self, score: Scorer) -> None:
        """Ŝ of every candidate and of the reference, on the prompts of G_k; gated rule only."""
        training, kls = self._tuned.training, self._tuned.kls
        steps = {**training.checkpoints, POLICY: len(training.steps)}
        scores: dict[str, Sequence[float]] = {}
        began = time.perf_counter()
        if self._gated:
            scores = {name: score(name, _prompts(self._subset)) for name in (REFERENCE, *steps)}
            self._reference_score = _mean(scores[REFERENCE])
        self._tuned.seconds["score"] = time.perf_counter() - began
        self._candidates = tuple(
            CandidateResult(name, step, kls[name].mean, kls[name].standard_error, *_compare(scores, name))
            for name, step in steps.items()
        )

    def propose(self) -> None:
        """Eq. 4: π_kl, the best penalised score among the candidates within the budget.

        Where none is within the budget, or none has a score, it is the nearest; without the gate the final policy."""
        if not self._gated:
            self._chosen = len(self._candidates) - 1
            return
        kls = [candidate.kl for candidate in self._candidates]
        budget = self._gate.max_kl
        scores = [math.nan if c.score is None or c.kl > budget else c.score for c in self._candidates]
        known = any(math.isfinite(score) and math.isfinite(kl) for score, kl in zip(scores, kls, strict=True))
        self._chosen = int(choose_candidate(scores, kls, self._gate)) if known else int(np.argmin(kls))

    def decide(self, review: Review | None = None) -> None:
        """Eq. 5, and then the inspector, who can only refuse; gated rule only."""
        if not self._gated:
            return
        own = self._candidates[self._chosen]
        gain, error = (math.nan if value is None else value for value in (own.gain, own.gain_error))
        kls = [candidate.kl for candidate in self._candidates]
        decision = gate_decision(gain, own.kl, self._gate, kls, error)
        reviewed = decision if review is None else review(decision, self._candidates)
        if reviewed.promote and not decision.promote:
            raise ValueError("the inspector promoted what the gate refused; it may only be more careful")
        self._decision = reviewed

    def advance(self) -> None:
        """The policy that goes on, and the reference as its rule says."""
        decision, settings, policy = self._decision, self._settings, self._policy
        promote = decision is not None and decision.promote
        rule = ReferenceRule(settings.reference, settings.reference_period, settings.reference_mixing)
        self._weight = float(rule.weight(self._number, promote))
        name = self._candidates[self._chosen].name
        if promote and name != POLICY:
            policy.copy(name, POLICY)
        policy.mix(POLICY, REFERENCE, self._weight)
        beyond = self._tuned.kls[POLICY].mean > self._gate.max_kl
        self._rolled_back = decision is not None and not promote and (settings.rollback or beyond)
        if self._rolled_back:
            policy.copy(_START, POLICY)

    @property
    def result(self) -> PhaseResult:
        """What the phase is remembered by, once it has advanced."""
        training = self._tuned.training
        return PhaseResult(
            phase=self._number,
            pairs=training.pairs,
            dropped=training.dropped,
            prompts=self._prompts,
            tokens=training.tokens,
            steps=tuple(training.steps),
            kls=tuple(training.kls),
            gate_prompts=_prompts(self._subset),
            candidates=self._candidates,
            chosen=self._chosen,
            reference_score=self._reference_score,
            decision=self._decision,
            weight=self._weight,
            rolled_back=self._rolled_back,
            policy_digest=self._policy.digest(POLICY),
            reference_digest=self._policy.digest(REFERENCE),
            seconds=dict(self._tuned.seconds),
        )


def gate_subset(items: Sequence[Item], prompts: int, rng: np.random.Generator) -> list[Item]:
    """G_k: all items of up to `prompts` prompts, drawn uniformly, not by score.

    Whole prompts are drawn because the divergence of all completions of a prompt costs about as much as
    that of one.
    """
    distinct = list(dict.fromkeys(prompt for prompt, _ in items))
    drawn = {distinct[i] for i in rng.choice(len(distinct), size=min(prompts, len(distinct)), replace=False)}
    return list(dict.fromkeys(item for item in items if item[0] in drawn))


def _prompts(subset: Sequence[Item]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(prompt for prompt, _ in subset))


def _compare(
    scores: dict[str, Sequence[float]], name: str
) -> tuple[float | None, float | None, float | None]:
    """Score, gain over the reference, and the gain's standard error over prompts."""
    if name not in scores:
        return None, None, None
    differences = np.asarray(scores[name], dtype=float) - np.asarray(scores[REFERENCE], dtype=float)
    n = len(differences)
    error = float(differences.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return _mean(scores[name]), _mean(differences), error


def _mean(values: Sequence[float] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else math.nan


@contextmanager
def _all_or_nothing(policy: Policy) -> Iterator[None]:
    """On an error both adapters return to what they were; the phase's own adapters are removed in any
    case."""
    before = set(policy.adapters)
    policy.add(_START, copy_of=POLICY)
    policy.add(f"{_START}-{REFERENCE}", copy_of=REFERENCE)
    try:
        yield
    except BaseException:  # an interrupt, too, must not leave a half-trained policy behind
        policy.copy(_START, POLICY)
        policy.copy(f"{_START}-{REFERENCE}", REFERENCE)
        raise
    finally:
        for name in set(policy.adapters) - before:
            policy.remove(name)
