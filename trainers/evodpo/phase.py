"""One fine-tuning phase of EvoDPO (Algorithm 1): train, collect candidates, choose, let the gate decide,
update.

    POLICY ── train on the pairs, to a target K̂L ──▶ candidate set C_k: checkpoints, the final policy, and
                                                       policies trained under other settings
    K̂L of each candidate (Eq. 3) and Ŝ of each and of the reference, on a fresh random gate subset G_k
    Eq. 4 proposes one ── Eq. 5 (and the inspector's veto) ──▶ reference rule ──▶ REFERENCE moves or stays

A phase is a function of the policy's two adapters, the pairs and the seed. It either completes or leaves
both adapters as they were, so one that was killed is simply run again.

After a promotion the promoted candidate is both the reference and the policy that goes on: the next phase
starts where policy and reference agree. After a refusal the policy goes on as trained, or returns to where
the phase began (`rollback`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.seeding import stream, torch_seed
from trainers.data.pairs import PreferencePair
from trainers.evodpo.candidate_set import Tune, Tuned, TuneJob, tune_all, tune_here
from trainers.evodpo.gate import GateDecision, choose_candidate, gate_decision
from trainers.evodpo.kl import Item
from trainers.evodpo.phase_result import CandidateResult, PhaseResult
from trainers.evodpo.references import rule_of
from trainers.evodpo.settings import GateSettings, PhaseSettings, TrainingSettings
from trainers.evodpo.training import StepRecord

_START = "start"
"""Adapter that remembers the policy as it was before the phase."""

Scorer = Callable[[str, Sequence[str]], Sequence[float]]
"""`score(adapter, prompts)`: for each prompt the mean score of fresh completions by that adapter, higher is
better."""

Review = Callable[[GateDecision, Sequence["CandidateResult"]], GateDecision]
"""The policy inspector: may return the decision refused (`GateDecision.refuse`), never promoted."""


def run_phase(
    policy: Policy,
    pairs: Sequence[PreferencePair],
    settings: PhaseSettings,
    gate: GateSettings,
    score: Scorer,
    *,
    phase: int,
    seed: int,
    gate_items: Sequence[Item] | None = None,
    alternatives: Sequence[TrainingSettings] = (),
    review: Review | None = None,
    on_step: Callable[[StepRecord], None] | None = None,
    tune: Tune = tune_here,
) -> PhaseResult:
    """Run phase number `phase` (from 1) of the run with that `seed`; see the module's description.

    `gate_items`: G_k, prompts that no pair has, each with its preferred completion; without them G_k is drawn from
    the pairs themselves, and Ŝ is then in-sample.

    `alternatives`: other settings under which further members of the candidate set are trained; gated rule only.

    `tune` does the work that costs, in this process unless told otherwise (`trainers.evodpo.launch`).
    `score` is called only under the gated rule, once for the reference and once per candidate. On any
    error, an interrupt included, the policy's adapters are as before.

    Raises:
        ValueError: there are no pairs, or none is short enough.
    """
    gated = settings.reference == "gated"
    with _all_or_nothing(policy):
        if settings.initialisation == "base":
            policy.reset(POLICY, torch_seed(seed, "phase", phase, "adapter") % 2**32)
        subset = list(gate_items or ()) or gate_subset(
            [(pair.prompt, pair.chosen) for pair in pairs],
            gate.prompts,
            stream(seed, "phase", phase, "gate"),
        )
        checkpoints = settings.checkpoints if gated else 0
        job = TuneJob(tuple(pairs), settings, checkpoints, tuple(subset), phase, seed)
        tuned = tune_all(policy, job, alternatives if gated else (), tune, on_step)
        training, seconds = tuned.training, dict(tuned.seconds)
        candidates, reference_score = _measure(tuned, subset, score if gated else None, seconds)
        chosen, decision = _decide(candidates, gate, review) if gated else (len(candidates) - 1, None)
        weight = _update(policy, candidates[chosen].name, decision, settings, phase)
        rolled_back = settings.rollback and decision is not None and not decision.promote
        if rolled_back:
            policy.copy(_START, POLICY)
    return PhaseResult(
        phase=phase,
        pairs=training.pairs,
        dropped=training.dropped,
        prompts=len({pair.prompt for pair in pairs}),
        tokens=training.tokens,
        steps=tuple(training.steps),
        kls=tuple(training.kls),
        gate_prompts=_prompts(subset),
        candidates=candidates,
        chosen=chosen,
        reference_score=reference_score,
        decision=decision,
        weight=weight,
        rolled_back=rolled_back,
        policy_digest=policy.digest(POLICY),
        reference_digest=policy.digest(REFERENCE),
        seconds=seconds,
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


def _measure(
    tuned: Tuned,
    subset: Sequence[Item],
    score: Scorer | None,
    seconds: dict[str, float],
) -> tuple[tuple[CandidateResult, ...], float | None]:
    """The candidate set with Eq. 3 and, if there is a `score`, Ŝ of each; and Ŝ of the reference."""
    steps = {**tuned.training.checkpoints, POLICY: len(tuned.training.steps)}
    scores: dict[str, Sequence[float]] = {}
    with _timed(seconds, "score"):
        if score is not None:
            scores = {name: score(name, _prompts(subset)) for name in (REFERENCE, *steps)}
    candidates = tuple(
        CandidateResult(
            name, step, tuned.kls[name].mean, tuned.kls[name].standard_error, *_compare(scores, name)
        )
        for name, step in steps.items()
    )
    return candidates, _mean(scores[REFERENCE]) if scores else None


def _compare(
    scores: dict[str, Sequence[float]], name: str
) -> tuple[float | None, float | None, float | None]:
    """Score, gain over the reference, and the gain's standard error over prompts."""
    if name not in scores:
        return None, None, None
    differences = np.asarray(scores[name], dtype=float) - np.asarray(scores[REFERENCE], dtype=float)
    n = len(differences)
    error = float(differences.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return _mean(scores[name]), float(differences.mean()), error


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _decide(
    candidates: Sequence[CandidateResult], gate: GateSettings, review: Review | None
) -> tuple[int, GateDecision]:
    """Eq. 4 over the candidates within the budget, Eq. 5, and the inspector, who can only refuse.

    Where no candidate is within the budget, or none has a score, the nearest one is refused."""
    kls = [candidate.kl for candidate in candidates]
    scores = [math.nan if c.score is None or c.kl > gate.max_kl else c.score for c in candidates]
    known = any(math.isfinite(score) and math.isfinite(kl) for score, kl in zip(scores, kls, strict=True))
    index = int(choose_candidate(scores, kls, gate)) if known else int(np.argmin(kls))
    gain, error = candidates[index].gain, candidates[index].gain_error
    decision = gate_decision(
        math.nan if gain is None else gain, kls[index], gate, kls, math.nan if error is None else error
    )
    if review is not None:
        reviewed = review(decision, candidates)
        if reviewed.promote and not decision.promote:
            raise ValueError("the inspector promoted what the gate refused; it may only be more careful")
        decision = reviewed
    return index, decision


def _update(
    policy: Policy, candidate: str, decision: GateDecision | None, settings: PhaseSettings, phase: int
) -> float:
    """Let the rule move the reference; returns the weight."""
    promote = decision is not None and decision.promote
    weight = float(rule_of(settings).weight(phase, promote))
    if promote and candidate != POLICY:
        policy.copy(candidate, POLICY)
    policy.mix(POLICY, REFERENCE, weight)
    return weight


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


@contextmanager
def _timed(seconds: dict[str, float], what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[what] = time.perf_counter() - start
