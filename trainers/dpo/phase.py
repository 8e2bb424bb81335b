"""One fine-tuning phase of EvoDPO: train, score the checkpoints, choose one, let the gate decide, move the reference.

    POLICY ── train on D_k, to a target K̂L ──▶ C_k: intermediate checkpoints, and the final policy
    K̂L of each (Eq. 3), and Ŝ of each and of the reference, on a fresh random gate subset G_k
    Eq. 4 proposes one ── Eq. 5 (and the inspector's veto) ──▶ REFERENCE moves or stays

The gate judges on prompts that training has not looked at: no pair has one of G_k, and the K̂L that ends the training
is taken along others. A phase is a function of the policy's two adapters, its pairs and the seed. It either completes
or leaves both adapters as they were.

After a promotion the promoted checkpoint is both the reference and the policy that goes on. After a refusal the policy
goes on as trained, or returns to where the phase began if it ended beyond the budget: from there no phase could be
promoted. Without a gate the policy becomes the last checkpoint within the budget, if there is one, and the reference
never moves (`fixed`) or follows (`every_phase`). Rules are compared at equal room: per phase as far from the phase's
reference, and from a fixed one k times as far in phase k. EvoTune = fixed + base; the EvoDPO ablation = every_phase +
previous; ATLAS = gated + previous.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.seeding import stream, torch_seed
from atlas_gym.trainers.data.measures import thinned
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.dpo.gate import GateDecision, gate_decision, paired_gain, propose, reference_moves
from atlas_gym.trainers.dpo.kl import Item
from atlas_gym.trainers.dpo.settings import GateSettings, PhaseSettings
from atlas_gym.trainers.dpo.train import StepRecord, Trained, TrainJob, train

_START = "start"
"""Adapter that remembers the policy as it was before the phase."""


@dataclass(frozen=True)
class Checkpoint:
    """One member of C_k with both quantities of Eq. 4."""

    name: str  # adapter it was; the last one is the phase-final policy
    step: int  # optimiser step after which it was taken
    kl: float  # K̂L against the reference, nats per token
    kl_error: float  # its standard error over the gate subset's completions
    score: float | None  # Ŝ, mean over the gate subset's prompts; None where no score was asked for
    gain: float | None  # ŝ − Ŝ of the reference
    gain_error: float | None  # standard error of the gain, paired by prompt; NaN for a single prompt


@dataclass(frozen=True)
class PhaseResult:
    """Everything a phase is remembered by; plain values only (`dataclasses.asdict` is its record)."""

    phase: int  # counted from 1
    pairs: int  # pairs trained on
    dropped: int  # pairs left out as too long
    prompts: int  # distinct prompts among them
    tokens: int  # tokens that went through the model while training, reference included
    steps: tuple[StepRecord, ...]  # every optimiser step: loss, margin, accuracy, …
    kls: tuple[tuple[int, float], ...]  # (step, K̂L) of each look at it during the training
    gate_prompts: tuple[str, ...]  # the gate subset's prompts
    checkpoints: tuple[Checkpoint, ...]  # C_k, in the order of their steps
    chosen: int  # index of π_kl in `checkpoints` (Eq. 4); without a gate the last one within the budget
    reference_score: float | None  # ŝ of the reference
    decision: GateDecision | None  # Eq. 5; None unless the rule is gated
    promoted: bool  # whether the reference became the chosen checkpoint
    rolled_back: bool  # whether the policy returned to where the phase began
    policy_digest: str  # of the adapter `POLICY` after the phase
    reference_digest: str  # of the adapter `REFERENCE` after the phase
    seconds: dict[str, float] = field(default_factory=dict)  # wall time of `train`, `kl` and `score`


Scorer = Callable[[str, Sequence[str]], Sequence[float]]
"""`score(adapter, prompts)`: the adapter's score at each prompt, higher is better, of fresh completions for example;
prompts that say nothing may be left out, the same ones for every adapter."""
Review = Callable[[GateDecision, Checkpoint], GateDecision]
"""The policy inspector, who is told of the chosen checkpoint: may return the decision refused (`GateDecision.refuse`),
never promoted."""


def run_phase(
    policy: Policy,
    pairs: Sequence[PreferencePair],
    settings: PhaseSettings,
    gate: GateSettings,
    score: Scorer | None,
    *,
    phase: int,
    seed: int,
    gate_items: Sequence[Item] = (),
    review: Review | None = None,
    train: Callable[[Policy, TrainJob], Trained] = train,
) -> PhaseResult:
    """Phase number `phase` (from 1) of the run with that `seed`; on any error, an interrupt included, the policy's
    adapters are as before. Raises ValueError if there are no pairs, or none is short enough.

    `score`: Ŝ by prompt, asked under the gated rule only, once of the reference and once of each checkpoint.
    `gate_items`: prompts that no pair has, each with its preferred completion, for `divided`; without them they are
    drawn from the pairs themselves, and Ŝ is then in-sample. `train` does the work that costs, in this process unless
    told otherwise.
    """
    gated = settings.reference == "gated"
    if settings.reference == "fixed":
        gate = replace(gate, max_kl=phase * gate.max_kl)
    rng = stream(seed, "phase", phase, "gate")
    own = [(pair.prompt, pair.chosen) for pair in pairs]
    G_k, watched = divided(gate_items or gate_subset(own, gate.prompts + gate.stop_prompts, rng), gate)
    prompts = tuple(dict.fromkeys(prompt for prompt, _ in G_k))
    job = TrainJob(
        tuple(pairs), settings, settings.checkpoints, tuple(G_k), phase, seed, gate.max_kl,
        tuple(watched or gate_subset(own, gate.stop_prompts, rng)),
    )  # fmt: skip
    decision = None
    with _all_or_nothing(policy):
        if settings.initialisation == "base":
            policy.reset(torch_seed(seed, "phase", phase, "adapter") % 2**32)
        # Eq. 2: DPO against the reference; Eq. 3: K̂L of all of C_k along G_k.
        trained = train(policy, job)
        began = time.perf_counter()
        reference_score, C_k = _scored(trained, score if gated else None, prompts)
        trained.seconds["score"] = time.perf_counter() - began
        within = [index for index, each in enumerate(C_k) if each.kl <= gate.max_kl]
        chosen = within[-1] if within else len(C_k) - 1
        if gated:
            # Eqs. 4 and 5, and then the inspector, who can only refuse.
            scores = [math.nan if c.score is None else c.score for c in C_k]
            chosen = propose(scores, [c.kl for c in C_k], gate)
            gain, error = (math.nan if v is None else v for v in (C_k[chosen].gain, C_k[chosen].gain_error))
            ruled = gate_decision(gain, C_k[chosen].kl, gate, [c.kl for c in C_k], error)
            decision = ruled if review is None else review(ruled, C_k[chosen])
            if decision.promote and not ruled.promote:
                raise ValueError("the inspector promoted what the gate refused; it may only be more careful")
        kl = C_k[-1 if gated else chosen].kl
        promoted, rolled_back = reference_moves(settings.reference, decision, kl, gate.max_kl)
        if (promoted or not gated) and C_k[chosen].name != POLICY:
            policy.copy(C_k[chosen].name, POLICY)
        if promoted:
            policy.copy(POLICY, REFERENCE)
        if rolled_back:
            policy.copy(_START, POLICY)
    return PhaseResult(
        phase=phase, pairs=trained.pairs, dropped=trained.dropped, prompts=len({pair.prompt for pair in pairs}),
        tokens=trained.tokens, steps=tuple(trained.steps), kls=tuple(trained.looks), gate_prompts=prompts,
        checkpoints=C_k, chosen=chosen, reference_score=reference_score, decision=decision, promoted=promoted,
        rolled_back=rolled_back, policy_digest=policy.digest(POLICY), reference_digest=policy.digest(REFERENCE),
        seconds=trained.seconds,
    )  # fmt: skip


def divided(items: Sequence[Item], gate: GateSettings) -> tuple[list[Item], list[Item]]:
    """G_k, and what the end of the training is decided by: a third of the prompts at most, and none of fewer than
    three."""
    prompts = list(dict.fromkeys(prompt for prompt, _ in items))
    count = min(gate.stop_prompts, len(prompts) // 3)
    watched = set(prompts[::3][:count])
    judged = set([prompt for prompt in prompts if prompt not in watched][: gate.prompts])
    return [item for item in items if item[0] in judged], [item for item in items if item[0] in watched]


def gate_subset(items: Sequence[Item], prompts: int, rng: np.random.Generator) -> list[Item]:
    """All items of up to `prompts` prompts, drawn uniformly, not by score.

    Whole prompts are drawn because the divergence of all completions of a prompt costs about as much as that of one.
    """
    distinct = list(dict.fromkeys(prompt for prompt, _ in items))
    drawn = set(thinned(distinct, prompts, rng))
    return list(dict.fromkeys(item for item in items if item[0] in drawn))


def _scored(
    trained: Trained, score: Scorer | None, prompts: Sequence[str]
) -> tuple[float | None, tuple[Checkpoint, ...]]:
    """Ŝ of the reference, and C_k with Ŝ on the prompts of G_k; None without a `score`."""

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values)) if len(values) else math.nan

    reference = None if score is None else score(REFERENCE, prompts)
    found = []
    for name, step in {**trained.checkpoints, POLICY: len(trained.steps)}.items():
        own, gain, error = None, None, None
        if score is not None and reference is not None:
            values = score(name, prompts)
            own = mean(values)
            gain, error = paired_gain(values, reference)
        kl = trained.kls[name]
        found.append(Checkpoint(name, step, kl.mean, kl.standard_error, own, gain, error))
    return None if reference is None else mean(reference), tuple(found)


@contextmanager
def _all_or_nothing(policy: Policy) -> Iterator[None]:
    """On an error both adapters return to what they were; the phase's own adapters are removed in any case."""
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


def late_mean(steps: Sequence[StepRecord], name: str) -> float:
    """Mean of a step's quantity over the last quarter of the steps: where the training went."""
    return fmean(getattr(step, name) for step in steps[-max(1, len(steps) // 4) :])


def sinking_warnings(steps: Sequence[StepRecord], beta: float) -> list[str]:
    """What a person has to hear if the chosen completions, too, have lost likelihood under a policy trained with DPO's
    β; empty if all is well."""
    shift = late_mean(steps, "chosen_reward") / beta
    if shift > -5.0:
        return []
    return [
        f"CHOSEN SIDE SINKS: the chosen completions are {-shift:.1f} nats less likely than under the reference. "
        "Lower the learning rate or pairs.reuse, so that fresh completions are rejected, or set phase.supervised."
    ]
