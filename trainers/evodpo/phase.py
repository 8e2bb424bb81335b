"""One fine-tuning phase of EvoDPO: train, collect candidates, choose, let the gate decide, update.

    POLICY ── train on pairs, to a target K̂L ──▶ candidate set C_k: checkpoints, the final policy, and
                                                     policies trained under other settings
    K̂L of each candidate (Eq. 3) and Ŝ of each and of the reference, on a fresh random gate subset G_k
    Eq. 4 proposes one ── Eq. 5 (and the inspector's veto) ──▶ reference rule ──▶ REFERENCE moves or stays

A phase is a function of the policy's two adapters, what it is trained on and the seed. It either completes or leaves
both adapters as they were, so one that was killed is simply run again.

After a promotion the promoted candidate is both the reference and the policy that goes on: the next phase
starts where policy and reference agree. After a refusal the policy goes on as trained, or returns to where
the phase began (`rollback`, and whenever it ended beyond the budget).
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.intervals import standard_error
from atlas_gym.seeding import stream, torch_seed
from atlas_gym.trainers.data.measures import thinned
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.evodpo.candidate_set import Tune, Tuned, TuneJob, tune_all, tune_here
from atlas_gym.trainers.evodpo.gate import GateDecision, choose_candidate, gate_decision
from atlas_gym.trainers.evodpo.kl import Item
from atlas_gym.trainers.evodpo.phase_result import CandidateResult, PhaseResult
from atlas_gym.trainers.evodpo.references import ReferenceRule
from atlas_gym.trainers.evodpo.settings import GateSettings, PhaseSettings, TrainingSettings

_START = "start"
"""Adapter that remembers the policy as it was before the phase."""

Scorer = Callable[[str, Sequence[str]], Sequence[float]]
"""`score(adapter, prompts)`: the adapter's score at each prompt, higher is better, of fresh completions for example;
prompts that say nothing may be left out, the same ones for every adapter."""

Review = Callable[[GateDecision, CandidateResult], GateDecision]
"""The policy inspector, who is told of the chosen candidate: may return the decision refused (`GateDecision.refuse`),
never promoted."""


def run_phase(
    policy: Policy,
    examples: Sequence[PreferencePair],
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
    """Phase number `phase` (from 1) of the run with that `seed`; see the module's description.

    `gate_items`: G_k, prompts that no example has, each with its preferred completion; without them G_k is drawn from
    the examples themselves, and Ŝ is then in-sample.

    `alternatives`: other settings under which further members of the candidate set are trained; gated rule only.

    `tune` does the work that costs, in this process unless told otherwise (`trainers.evodpo.launch`).
    `score` is called only under the gated rule, once for the reference and once per candidate. On any
    error, an interrupt included, the policy's adapters are as before.

    Raises:
        ValueError: there are no examples, or none is short enough.
    """
    gated = settings.reference == "gated"
    subset = list(gate_items or ()) or gate_subset(
        [(example.prompt, example.chosen) for example in examples], gate.prompts, stream(seed, "phase", phase, "gate")
    )  # fmt: skip
    prompts = tuple(dict.fromkeys(prompt for prompt, _ in subset))
    checkpoints = settings.checkpoints if gated else 0
    job = TuneJob(tuple(examples), settings, checkpoints, tuple(subset), phase, seed, gate.max_kl)
    with _all_or_nothing(policy):
        if settings.initialisation == "base":
            policy.reset(POLICY, torch_seed(seed, "phase", phase, "adapter") % 2**32)
        # Eq. 2: DPO against the reference; Eq. 3: K̂L of all of C_k along G_k.
        tuned = tune_all(policy, job, alternatives if gated else (), tune)
        began = time.perf_counter()
        reference_score, candidates = _scored(tuned, score if gated else None, prompts)
        chosen = _proposed(candidates, gate) if gated else len(candidates) - 1
        decision = _decided(candidates, chosen, gate, review) if gated else None
        tuned.seconds["score"] = time.perf_counter() - began
        beyond = not tuned.kls[POLICY].mean <= gate.max_kl  # nor a number
        weight, rolled_back = _advance(policy, settings, phase, candidates[chosen], decision, beyond)
    training = tuned.training
    return PhaseResult(
        phase=phase, pairs=training.pairs, dropped=training.dropped,
        prompts=len({example.prompt for example in examples}), tokens=training.tokens, steps=tuple(training.steps),
        kls=tuple(training.kls), gate_prompts=prompts, candidates=candidates, chosen=chosen,
        reference_score=reference_score, decision=decision, weight=weight, rolled_back=rolled_back,
        policy_digest=policy.digest(POLICY), reference_digest=policy.digest(REFERENCE), seconds=tuned.seconds,
    )  # fmt: skip


def _scored(
    tuned: Tuned, score: Scorer | None, prompts: Sequence[str]
) -> tuple[float | None, tuple[CandidateResult, ...]]:
    """Ŝ of the reference and of every candidate on the prompts of G_k; None without a `score`."""
    steps = {**tuned.training.checkpoints, POLICY: len(tuned.training.steps)}
    scores = {} if score is None else {name: score(name, prompts) for name in (REFERENCE, *steps)}
    candidates = tuple(
        CandidateResult(name, step, tuned.kls[name].mean, tuned.kls[name].standard_error, *_compare(scores, name))
        for name, step in steps.items()
    )  # fmt: skip
    return _mean(scores[REFERENCE]) if scores else None, candidates


def _proposed(candidates: Sequence[CandidateResult], gate: GateSettings) -> int:
    """Eq. 4: π_kl, the best penalised score among the candidates within the budget; the nearest, where none is within
    the budget or none has a score."""
    kls = [candidate.kl for candidate in candidates]
    scores = [math.nan if c.score is None or c.kl > gate.max_kl else c.score for c in candidates]
    known = any(math.isfinite(score) and math.isfinite(kl) for score, kl in zip(scores, kls, strict=True))
    nearest = np.argmin(np.nan_to_num(kls, nan=math.inf))
    return int(choose_candidate(scores, kls, gate) if known else nearest)


def _decided(
    candidates: Sequence[CandidateResult], chosen: int, gate: GateSettings, review: Review | None
) -> GateDecision:
    """Eq. 5, and then the inspector, who can only refuse."""
    own = candidates[chosen]
    gain, error = (math.nan if value is None else value for value in (own.gain, own.gain_error))
    decision = gate_decision(gain, own.kl, gate, [candidate.kl for candidate in candidates], error)
    reviewed = decision if review is None else review(decision, own)
    if reviewed.promote and not decision.promote:
        raise ValueError("the inspector promoted what the gate refused; it may only be more careful")
    return reviewed


def _advance(
    policy: Policy, settings: PhaseSettings, phase: int, chosen: CandidateResult, decision: GateDecision | None,
    beyond: bool,
) -> tuple[float, bool]:  # fmt: skip
    """Leave the policy that goes on, and the reference as its rule says; the policy's weight in it, and whether the
    policy was rolled back. `beyond`: it ended beyond the budget."""
    promote = decision is not None and decision.promote
    if decision is None and math.isnan(chosen.kl):  # nothing would stop weights that are no numbers any more
        policy.copy(_START, POLICY)
        return 0.0, True
    rule = ReferenceRule(settings.reference)
    weight = float(rule.weight(phase, promote))
    if promote and chosen.name != POLICY:
        policy.copy(chosen.name, POLICY)
    policy.mix(POLICY, REFERENCE, weight)
    rolled_back = decision is not None and not promote and (settings.rollback or beyond)
    if rolled_back:
        policy.copy(_START, POLICY)
    return weight, rolled_back


def gate_subset(items: Sequence[Item], prompts: int, rng: np.random.Generator) -> list[Item]:
    """G_k: all items of up to `prompts` prompts, drawn uniformly, not by score.

    Whole prompts are drawn because the divergence of all completions of a prompt costs about as much as
    that of one.
    """
    distinct = list(dict.fromkeys(prompt for prompt, _ in items))
    drawn = set(thinned(distinct, prompts, rng))
    return list(dict.fromkeys(item for item in items if item[0] in drawn))


def _compare(
    scores: dict[str, Sequence[float]], name: str
) -> tuple[float | None, float | None, float | None]:
    """Score, gain over the reference, and the gain's standard error over prompts."""
    if name not in scores:
        return None, None, None
    differences = np.asarray(scores[name], dtype=float) - np.asarray(scores[REFERENCE], dtype=float)
    return _mean(scores[name]), _mean(differences), float(standard_error(differences))


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
