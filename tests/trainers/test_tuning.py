"""Where a phase's pairs and scores come from: Ŝ against its definition, and phases that are skipped."""

from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

import atlas_gym.trainers.loop.phase_data
from atlas_gym.agents.engines.engine import Completion
from atlas_gym.agents.supporters.strategist import StrategyAdvice, TuningControls
from atlas_gym.evaluation import Evaluation, Status
from atlas_gym.seeding import torch_seed
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.data.rollouts import ProgramCache
from atlas_gym.trainers.dpo.gate import gate_decision
from atlas_gym.trainers.dpo.phase import Checkpoint, PhaseResult
from atlas_gym.trainers.dpo.settings import GateSettings
from atlas_gym.trainers.dpo.train import StepRecord
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.loop.phase import Tuning
from atlas_gym.trainers.store.plain import plain
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.exploring import SPEC
from tests.trainers.samples import PROPOSAL, RECORD, parts

SAMPLES = 4
WORTH = {"default": [0.04, 0.02, None, -3.0], "reference": [0.01, None, None, None]}
"""What each policy's programs gain over their parent; None: the program fails."""
OTHER = replace(PROPOSAL, site="lam =", prompt="another prompt")


class Backend:
    """Each policy writes its own name and the sample's number."""

    def __init__(self):
        self.asked = []

    @contextmanager
    def serving(self, adapter):
        def stream(requests, on_completion):
            self.asked.append((adapter, [(r.prompt, r.n, r.seed) for r in requests]))
            for i, request in enumerate(requests):
                for j in range(request.n):
                    on_completion(i, j, Completion(f" '{adapter}', {i}, {j}\n", 1))

        yield SimpleNamespace(stream=stream)


class Evaluator:
    """Knows what each policy's samples are worth; the second prompt's programs are worth nothing."""

    def submit(self, program, task):
        _, adapter, rest = program.split("'")
        prompt, sample = (int(number) for number in rest.split("\n")[0].split(",")[1:])
        worth = WORTH[adapter][sample] if prompt == 0 else None
        future: Future = Future()
        if worth is None:
            future.set_result(Evaluation(Status.ERROR, None, "no"))
        else:
            future.set_result(Evaluation(Status.OK, RECORD.score + worth))
        return future


@pytest.fixture
def store(tmp_path):
    with RunStore(tmp_path) as store:
        start = replace(RECORD, id=0, round=0, origin="seed", parent_id=None, prompt="", program_key="start")
        store.add_round(0, [start], {})
        records = [RECORD, replace(RECORD, id=8, island=3, site="lam =", prompt="another prompt")]
        store.add_round(1, records, {}, [PROPOSAL, replace(OTHER, island=3)])
        yield store


@pytest.fixture(autouse=True)
def every_text_fits(monkeypatch):
    monkeypatch.setattr("atlas_gym.trainers.loop.phase_data.writable", lambda records, *_: records)


def tuning(store, **settings):
    config = load_config(
        None,
        {
            "gate": {"samples": SAMPLES},
            "seed": 11,
            **settings,
        },
    )
    agent = SimpleNamespace(spec=SimpleNamespace(errors=()))
    run = parts(config, store, backend=Backend(), agent=agent, cache=ProgramCache(Evaluator(), [SPEC], store))
    return run.backend, Tuning(run, SimpleNamespace(tokenizer=None))


def pair(record):
    return PreferencePair(record.prompt, " 1\n", " 2\n", "score", 0.1, record.id, 99, record.site)


def test_the_score_of_a_policy_is_the_mean_worth_of_its_fresh_programs(store):
    backend, phases = tuning(store)
    pairs, gate = [pair(store.candidate(7))], [store.candidate(8)]
    score = phases.scorer(1, pairs, gate)
    found = {adapter: score(adapter, [RECORD.prompt, "another prompt"]) for adapter in WORTH}
    # Failures and what harms count as nothing, and every sample counts.
    assert found["default"] == pytest.approx([(0.04 + 0.02) / SAMPLES, 0.0])
    assert found["reference"] == pytest.approx([0.01 / SAMPLES, 0.0])
    seeds = [torch_seed(11, "gate", 1, i) for i in range(2)]
    expected = [("prompt", SAMPLES, seeds[0]), ("another prompt", SAMPLES, seeds[1])]
    assert backend.asked == [("default", expected), ("reference", expected)]  # common random numbers


def test_the_score_may_be_the_likelihood_of_what_is_known_to_improve(store, monkeypatch):
    asked = []

    def log_known_gain(policy, adapter, answers):
        asked.append((adapter, answers))
        return [-3.0 for _ in answers]

    monkeypatch.setattr("atlas_gym.trainers.loop.phase.log_known_gain", log_known_gain)
    worse = replace(RECORD, id=9, round=2, prompt="worse prompt", score=-0.5)
    store.add_round(2, [worse], {}, [replace(PROPOSAL, prompt="worse prompt")])
    backend, phases = tuning(store, gate_score="likelihood")
    score = phases.scorer(1, [pair(store.candidate(7))], [store.candidate(8), worse])
    assert score("default", ["another prompt", "worse prompt"]) == [-3.0]
    score("between", ["another prompt", "worse prompt"])
    assert asked[0] == ("default", {"another prompt": [(RECORD.completion, 0.05)]})
    assert backend.asked == []  # samples are for the inspector, of the policies that the gate compares
    assert "valid_share" in phases._measured("default")[1]
    assert phases._measured("default") == phases._measured("default")
    assert [adapter for adapter, _ in backend.asked] == ["default"]


@pytest.mark.parametrize(
    ("best_before", "since", "idle"),
    [(-0.2, -0.3, True), (-0.2, -0.2, True), (-0.2, None, True), (-0.2, -0.1, False)],
)
def test_a_phase_is_skipped_unless_exploration_improved_since_the_last(
    store, monkeypatch, best_before, since, idle
):
    before = replace(RECORD, id=20, round=2, score=best_before)
    after = replace(RECORD, id=30, round=3, score=since, status="ok" if since is not None else "error")
    store.add_round(2, [before], {})
    store.add_round(3, [after], {})
    monkeypatch.setattr(RunStore, "best_scores", _without_the_start(RunStore.best_scores))
    monkeypatch.setattr(atlas_gym.trainers.loop.phase_data, "build_pairs", lambda *_, **__: [])
    _, phases = tuning(store, phase_every=1)
    phases.take(3)
    (row,) = store.phases()
    assert ("no improvement in rounds 3 to 3" in row["skipped"]) == idle
    assert idle or "cannot train" in row["skipped"]  # it went on to its pairs, of which there are none here


def _without_the_start(best_scores):
    return lambda self, first, last: best_scores(self, max(first, 2), last)


def test_idle_phases_are_not_skipped_where_the_settings_say_so(store, monkeypatch):
    monkeypatch.setattr(atlas_gym.trainers.loop.phase_data, "build_pairs", lambda *_, **__: [])
    _, phases = tuning(store, skip_idle_phases=False)
    phases.take(1)
    assert "cannot train" in store.phases()[0]["skipped"]


def test_decisions_without_a_standard_error_are_remembered(store):
    # One prompt tells no spread: not a number is a value of a decision like any other.
    decision = gate_decision(0.1, 0.2, GateSettings(), gain_error=float("nan"))
    candidate = Checkpoint("default", 1, 0.2, 0.0, 0.1, 0.1, float("nan"))
    step = StepRecord(1, *[0.5] * 7)
    result = PhaseResult(
        2, 1, 0, 1, 9, (step,), (), ("prompt",), (candidate,), 0, 0.0, decision, False, False, "p", "r"
    )
    for phase in (1, 2):
        store.add_phase(phase, phase, False, plain(result), ())
    _, phases = tuning(store)
    row = phases._row(result, StrategyAdvice(TuningControls()))
    assert "GATE REFUSED 3 phases in a row" in row["warnings"][0]
