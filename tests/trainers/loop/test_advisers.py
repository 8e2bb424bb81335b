"""Strategist and inspector within a run: controls carry over, calls are recorded, a veto is only ever a veto."""

from dataclasses import replace

import pytest

from atlas_gym.agents.supporters.build import Supporters
from atlas_gym.agents.supporters.consult import Consultation, SupporterCall
from atlas_gym.agents.supporters.inspector import InspectorVerdict
from atlas_gym.agents.supporters.strategist import StrategyAdvice, TuningControls
from atlas_gym.trainers.dpo.gate import gate_decision
from atlas_gym.trainers.dpo.phase import Checkpoint
from atlas_gym.trainers.dpo.settings import GateSettings
from atlas_gym.trainers.loop.advisers import PhaseAdvisers, trained_under
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.samples import PROPOSAL, RECORD

CONFIG = load_config(None, {"phase": {"beta": 0.2}, "pairs": {"chosen_quantile": 0.4}})
CALL = SupporterCall("strategist", "rules", "", ("phase", 1), "ok")
CANDIDATE = Checkpoint("default", 4, kl=0.05, kl_error=0.01, score=0.5, gain=0.1, gain_error=0.02)


class Strategist:
    def __init__(self, controls):
        self.controls, self.told = controls, []

    def consult(self, request):
        self.told.append(request)
        changed = tuple(
            n for n in ("beta", "epochs") if getattr(self.controls, n) != getattr(request.controls, n)
        )
        return Consultation(StrategyAdvice(self.controls, changed), CALL)


class Inspector:
    def __init__(self, veto):
        self.veto = veto

    def consult(self, request):
        verdict = InspectorVerdict(request.rule_accepts, self.veto, ("I do not like it",))
        return Consultation(verdict, replace(CALL, role="inspector"))


@pytest.fixture
def store(tmp_path):
    with RunStore(tmp_path) as store:
        store.add_round(0, [replace(RECORD, id=0, round=0, island=0, origin="seed")], {})
        store.add_round(1, [RECORD, replace(RECORD, id=8, status="error", score=None)], {}, [PROPOSAL])
        yield store


def test_without_a_strategist_the_configuration_stands(store):
    advisers = PhaseAdvisers(CONFIG, Supporters(), store)
    advice = advisers.strategy(1, 0)
    assert advice.controls == TuningControls(0.2, 0.4, CONFIG.phase.epochs, CONFIG.phase.learning_rate)
    assert advice.changed == ()
    assert trained_under(CONFIG.phase, advice.controls) == CONFIG.phase
    assert advisers.calls == []


def test_a_strategist_hears_what_happened_and_is_obeyed(store):
    strategist = Strategist(TuningControls(0.3, 0.4, 2, CONFIG.phase.learning_rate))
    advisers = PhaseAdvisers(CONFIG, Supporters(strategist=strategist), store)
    advice = advisers.strategy(1, 5)
    phase = trained_under(CONFIG.phase, advice.controls)
    assert (phase.beta, phase.epochs) == (0.3, 2)
    assert advice.changed == ("beta", "epochs")
    assert strategist.told[0].pairs == 5
    assert (strategist.told[0].passed, strategist.told[0].failed) == (1, 1)
    assert advisers.calls == [CALL]


def test_a_strategist_hears_how_the_last_phase_went(store):
    strategist = Strategist(TuningControls(0.2, 0.4, 1, 1e-4))
    advisers = PhaseAdvisers(CONFIG, Supporters(strategist=strategist), store)
    advisers.strategy(1, 0)
    steps = [{"loss": 0.69, "entropy": 1.5, "accuracy": 0.5}, {"loss": 0.61, "entropy": 0.5, "accuracy": 0.9}]
    row = {"round": 1, "decision": None, "steps": steps, "kl": 0.1, "chosen_reward": -0.4}
    store.add_phase(1, 1, False, row | {"controls": {"beta": 0.2}}, [])
    advisers.strategy(2, 0)
    before, after = strategist.told
    assert (before.losses, before.entropy) == ((), None)
    assert (after.losses, after.entropy) == ((0.69, 0.61), 1.0)
    assert (before.kl, before.chosen_shift, before.accuracies) == (None, None, ())
    assert (after.kl, after.chosen_shift, after.accuracies) == (0.1, -2.0, (0.5, 0.9))


def test_controls_carry_over_through_the_store(store):
    row = {"round": 1, "controls": {"beta": 0.7, "score_threshold": 0.1, "epochs": 3, "learning_rate": 1e-5}}
    store.add_phase(1, 1, False, row | {"skipped": ""}, [])
    advisers = PhaseAdvisers(CONFIG, Supporters(), store)
    assert advisers.current_controls() == TuningControls(0.7, 0.1, 3, 1e-5)


@pytest.mark.parametrize("veto", [True, False])
@pytest.mark.parametrize("gain", [0.1, -0.1])
def test_the_inspector_can_only_refuse(store, veto, gain):
    decision = gate_decision(gain, 0.05, GateSettings())
    advisers = PhaseAdvisers(CONFIG, Supporters(inspector=Inspector(veto)), store)
    reviewed = advisers.review(1, lambda adapter: (16, {}), decision, replace(CANDIDATE, gain=gain))
    assert reviewed.promote == (decision.promote and not veto)
    assert [call.role for call in advisers.calls] == ["inspector"]
    if veto:
        assert "inspector" in reviewed.reason
        assert ("is below the tolerance" in reviewed.reason) == (not decision.promote)


def test_the_inspector_hears_what_got_worse(store):
    heard = []

    class Listening(Inspector):
        def consult(self, request):
            heard.append(request)
            return super().consult(request)

    advisers = PhaseAdvisers(CONFIG, Supporters(inspector=Listening(False)), store)
    decision = gate_decision(0.1, 0.05, GateSettings())
    measured = {
        "reference": {"valid_share": 0.8, "initial_term": 0.1, "nothing": 1.0},
        "default": {"valid_share": 0.2, "initial_term": 0.4},
    }
    advisers.review(1, lambda adapter: (14, measured[adapter]), decision, CANDIDATE)
    assert heard[0].samples == 14  # as many as there were, not as many as were meant
    worse = {metric.name: metric.regression for metric in heard[0].metrics}
    assert worse == {"valid_share": pytest.approx(4.0), "initial_term": pytest.approx(4.0)}
