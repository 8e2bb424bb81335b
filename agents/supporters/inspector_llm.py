"""The policy inspector as a language model behind an OpenAI-compatible endpoint.

The measurements decide what counts as a regression; the model may name one, and object. A name that was not measured
is ignored.
"""

from agents.supporters.conversation import LLMSupporter
from agents.supporters.inspector import REASON_CHARS, Inspection, InspectorVerdict
from agents.supporters.prompts import Data
from agents.supporters.replies import InspectionReply, parse_reply
from atlas_gym.text import one_line

_MOST_ITEMS = 8


class LLMPolicyInspector(LLMSupporter[Inspection, InspectorVerdict]):
    """A model that looks at a proposed promotion and may object."""

    role = "inspector"
    reply = InspectionReply

    def values(self, request: Inspection) -> dict[str, str | Data]:
        """What the template's placeholders stand for."""
        metrics = "\n".join(
            f"- {one_line(metric.name, 60)}: {metric.reference:.5g} -> {metric.candidate:.5g} "
            f"({'higher' if metric.higher_is_better else 'lower'} is better)"
            for metric in request.metrics
        )
        error = "" if request.gain_error is None else f" (standard error {request.gain_error:.4g})"
        return {
            "rule": "accepts" if request.rule_accepts else "refuses",
            "gain": f"{request.gain:.5g}{error}",
            "min_gain": f"{request.min_gain:.5g}",
            "kl": f"{request.kl:.5g}",
            "max_kl": f"{request.max_kl:.5g}",
            "samples": str(request.samples),
            "metrics": Data(metrics, 3_000),
            "recent": ", ".join("promoted" if done else "kept" for done in request.recent[-8:]) or "none yet",
        }

    def interpret(self, request: Inspection, text: str) -> InspectorVerdict:
        """The verdict that a reply amounts to; raises ReplyError if it is no reply."""
        reply = parse_reply(text, InspectionReply)
        measured = {metric.name: metric for metric in request.metrics}
        regressions = {
            named.metric: measured[named.metric].regression()
            for named in reply.regressions[:_MOST_ITEMS]
            if named.metric in measured
        }
        reasons = tuple(one_line(reason, REASON_CHARS) for reason in reply.reasons[:_MOST_ITEMS])
        return InspectorVerdict(request.rule_accepts, reply.decision == "veto", reasons, regressions)

    def neutral(self, request: Inspection) -> InspectorVerdict:
        return InspectorVerdict(request.rule_accepts)
