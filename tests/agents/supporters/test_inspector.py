"""The inspector can refuse what the rule accepts, and never the other way round."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.supporters.inspector import Inspection, MetricChange, PolicyInspector
from atlas_gym.agents.supporters.messages import ReplyError
from tests.agents.supporters.samples import INSPECTION, MODELS

_METRICS = st.builds(MetricChange, st.sampled_from("ab"), st.floats(), st.floats(), st.booleans())
_INSPECTIONS = st.builds(
    Inspection, key=st.just(("phase", 1)), rule_accepts=st.booleans(), gain=st.floats(), kl=st.floats(),
    min_gain=st.floats(0, 1), max_kl=st.floats(0, 1), gain_error=st.none() | st.floats(),
    metrics=st.lists(_METRICS, max_size=4).map(tuple),
)  # fmt: skip
_REPLIES = st.fixed_dictionaries(
    {"decision": st.sampled_from(["accept", "veto", "ACCEPT", "promote", 1])},
    optional={
        "accept": st.booleans(),
        "rule_accepts": st.just(True),
        "regressions": st.lists(st.fixed_dictionaries({"metric": st.sampled_from(["a", "z"])}), max_size=3),
    },
)


@given(_INSPECTIONS, _REPLIES)
def test_no_reply_accepts_what_the_rule_refuses(inspection, reply):
    try:
        verdict = MODELS.inspector.interpret(inspection, json.dumps(reply))
    except ReplyError:
        assert reply["decision"] not in ("accept", "veto")
        return
    assert verdict.accept == (inspection.rule_accepts and reply["decision"] == "accept")
    assert set(verdict.regressions) <= {m.name for m in inspection.metrics}


@given(_INSPECTIONS)
def test_rules_only_take_away(inspection):
    answer = PolicyInspector().consult(inspection)
    assert inspection.rule_accepts or not answer.advice.accept
    assert answer.advice.veto == bool(answer.advice.reasons)
    json.dumps(vars(answer.call))


def judged(*metrics: MetricChange, **changes):
    """What the rules make of some measurements."""
    return PolicyInspector().consult(replace(INSPECTION, metrics=metrics, **changes)).advice


def test_spike_of_one_loss_term_is_vetoed_and_named():
    """The paper's case: the residual falls, the initial condition's error rises (the trivial solution)."""
    verdict = judged(
        MetricChange("residual_mse", 0.4, 0.001), MetricChange("ic_mse", 0.01, 0.45),
        MetricChange("bc_mse", 0.1, 0.2), MetricChange("tiny", 1e-15, 1e-8),
    )  # fmt: skip
    assert not verdict.accept
    assert verdict.reasons == ("Regression: ic_mse is worse by a factor of 45.",)
    assert verdict.regressions == {"ic_mse": pytest.approx(45), "bc_mse": pytest.approx(2)}


@pytest.mark.parametrize(("samples", "accepted"), [(16, True), (160, False), (0, False)])
def test_a_share_that_may_have_fallen_by_chance_is_named_but_no_reason(samples, accepted):
    verdict = judged(MetricChange("valid_share", 7 / 16, 2 / 16, higher_is_better=True), samples=samples)
    assert verdict.accept is accepted
    assert verdict.regressions == {"valid_share": pytest.approx(3.5)}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_a_number_is_vetoed(value):
    assert not judged(MetricChange("ic_mse", 0.1, value)).accept
    assert not judged(MetricChange("valid_share", 0.5, math.nan, higher_is_better=True), samples=4).accept
    assert not judged(gain=value).accept
    assert not judged(kl=value).accept


def test_only_what_got_worse_is_a_regression_whatever_a_model_names():
    metrics = (
        MetricChange("better", 0.4, 0.2), MetricChange("tiny", 1e-9, 5e-8), MetricChange("worse", 0.1, 0.3),
    )  # fmt: skip
    named = [{"metric": name} for name in ("better", "tiny", "worse", "unknown")]
    reply = {"decision": "veto", "reasons": ["IC spike"], "regressions": named}
    verdict = MODELS.inspector.interpret(replace(INSPECTION, metrics=metrics), json.dumps(reply))
    assert not verdict.accept
    assert verdict.reasons == ("IC spike",)
    assert verdict.regressions == {"worse": pytest.approx(3)}
