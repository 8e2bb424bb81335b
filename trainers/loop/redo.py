"""A finished phase done again, for a run whose adapters on disk were damaged or lost.

Training is a function of the adapters before it, the examples and the seed, and all three are at hand on the machine
that did it. Scores and the decision are taken from the record: nothing is sampled or judged anew. The adapters' digests
are on record too, so the result is either what was lost, bit for bit, or an error.
"""

from collections.abc import Callable, Mapping
from typing import Any

from atlas_gym.agents.models.adapters import AdapterError
from atlas_gym.agents.models.policy import REFERENCE
from atlas_gym.trainers.evodpo.gate import GateDecision
from atlas_gym.trainers.evodpo.phase import Review, Scorer
from atlas_gym.trainers.evodpo.phase_result import CandidateResult, PhaseResult


def redo_phase(row: Mapping[str, Any], phase: Callable[[Scorer, Review], PhaseResult]) -> None:
    """Leave the policy's adapters as a phase left them; they begin as the phase found them.

    Args:
        row: the phase's record in the store.
        phase: runs it on the same data and under the same settings, with this scorer and this inspector.

    Raises:
        AdapterError: other adapters came out; another machine or other versions of the libraries do that.
    """
    scores = {c["name"]: c["score"] for c in row["candidates"]} | {REFERENCE: row["reference_score"]}

    def review(decision: GateDecision, chosen: CandidateResult) -> GateDecision:
        refused = decision.promote and not row["decision"]["promote"]
        return decision.refuse("it was refused before") if refused else decision

    outcome = phase(lambda adapter, prompts: [scores[adapter]] * len(prompts), review)
    if (outcome.policy_digest, outcome.reference_digest) != (row["policy_digest"], row["reference_digest"]):
        raise AdapterError(
            f"the adapters of phase {row['phase']} are lost: tuned again from the same data, others came out (another "
            "machine, or other versions?). Copy the folder from where there is a whole one, or begin another run; all "
            "candidates and pairs are still in the store"
        )
