"""A finished phase done again, for a run whose adapters on disk were damaged or lost.

Training is a function of the adapters before it, the examples and the seed, and all three are at hand on the machine
that did it. Scores and the decision are taken from the record: nothing is sampled or judged anew. The adapters' digests
are on record too, so the result is either what was lost, bit for bit, or an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.models.adapters import AdapterError
from agents.models.policy import REFERENCE, Policy
from trainers.data.groups import Examples
from trainers.evodpo.candidate_set import Tune
from trainers.evodpo.gate import GateDecision
from trainers.evodpo.kl import Item
from trainers.evodpo.phase import run_phase
from trainers.evodpo.phase_result import CandidateResult
from trainers.evodpo.settings import GateSettings, PhaseSettings


def redo_phase(
    policy: Policy,
    examples: Examples,
    settings: PhaseSettings,
    gate: GateSettings,
    row: Mapping[str, Any],
    *,
    gate_items: Sequence[Item],
    alternatives: Sequence[PhaseSettings] = (),
    seed: int,
    tune: Tune,
) -> None:
    """Leave the policy's adapters as the phase left them; they begin as the phase found them.

    Args:
        policy: its adapters.
        examples: what the phase was trained on.
        settings: the phase's settings, the strategist's changes included.
        gate: the gate's settings.
        row: the phase's record in the store.
        gate_items: the phase's gate subset; empty if it was drawn from the examples.
        alternatives: the other settings under which candidates were trained.
        seed: the run's.
        tune: does the training.

    Raises:
        AdapterError: other adapters came out; another machine or other versions of the libraries do that.
    """
    scores = {c["name"]: c["score"] for c in row["candidates"]} | {REFERENCE: row["reference_score"]}

    def review(decision: GateDecision, candidates: Sequence[CandidateResult]) -> GateDecision:
        refused = decision.promote and not row["decision"]["promote"]
        return decision.refuse("it was refused before") if refused else decision

    outcome = run_phase(
        policy, examples, settings, gate, lambda adapter, prompts: [scores[adapter]] * len(prompts),
        phase=row["phase"], seed=seed, gate_items=gate_items, alternatives=alternatives,
        review=review, tune=tune,
    )  # fmt: skip
    if (outcome.policy_digest, outcome.reference_digest) != (row["policy_digest"], row["reference_digest"]):
        raise AdapterError(
            f"the adapters of phase {row['phase']} are lost: tuned again from the same data, others came out (another "
            "machine, or other versions?). Copy the folder from where there is a whole one, or begin another run; all "
            "candidates and pairs are still in the store"
        )
