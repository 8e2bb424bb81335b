"""The policy inspector as a language model behind an OpenAI-compatible endpoint.

The measurements decide what counts as a regression; the model may name one, add a note and object. A name
that was not measured is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

from agents.supporters.call import Consultation, SupporterCall
from agents.supporters.conversation import Conversation
from agents.supporters.inspector import (
    REASON_CHARS,
    Inspection,
    InspectorVerdict,
    Regression,
)
from agents.supporters.prompts import Data, PromptTemplate
from agents.supporters.replies import InspectionReply, json_schema, parse_reply, schema_text
from atlas_gym.text import one_line

_MOST_ITEMS = 8


class LLMPolicyInspector:
    """A model that looks at a proposed promotion and may object."""

    def __init__(self, conversation: Conversation, template: PromptTemplate) -> None:
        self._conversation = conversation
        self._template = template

    def consult(self, request: Inspection) -> Consultation[InspectorVerdict]:
        """The rule's decision, or a veto; the rule's decision if no usable reply came in time."""
        return self._conversation.ask(
            request.key,
            self._template.fill(prompt_values(request)),
            json_schema(InspectionReply),
            lambda text: interpret(request, text),
            InspectorVerdict(request.rule_accepts),
        )

    def resume(self, calls: Iterable[SupporterCall]) -> None:
        """Take up the budget where an earlier process of this run left it."""
        self._conversation.resume(calls)


def prompt_values(request: Inspection) -> dict[str, str | Data]:
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
        "schema": schema_text(InspectionReply),
    }


def interpret(request: Inspection, text: str) -> InspectorVerdict:
    """The verdict that a reply amounts to; raises ReplyError if it is no reply."""
    reply = parse_reply(text, InspectionReply)
    measured = {metric.name: metric for metric in request.metrics}
    regressions = tuple(
        Regression(named.metric, measured[named.metric].regression(), one_line(named.note, REASON_CHARS))
        for named in reply.regressions[:_MOST_ITEMS]
        if named.metric in measured
    )
    reasons = tuple(one_line(reason, REASON_CHARS) for reason in reply.reasons[:_MOST_ITEMS])
    return InspectorVerdict(request.rule_accepts, reply.decision == "veto", reasons, regressions)
