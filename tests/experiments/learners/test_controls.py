"""The ledger's count, and the learners that cost no model, on bandits that take milliseconds."""

import pytest

pytest.importorskip("cma", reason="needs the extra `optimisers`")
pytest.importorskip("optuna", reason="needs the extra `optimisers`")

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from atlas_gym import make_task
from atlas_gym.program_text import program_key
from atlas_gym.tasks.registry import BUILT_IN
from experiments.learners.controls import learn_expert, learn_rules, learn_start, open_numbers
from experiments.learners.ledger import Ledger, Trial
from experiments.learners.objective import relative_gap
from experiments.learners.optimisers import learn_cma, learn_random, learn_tpe

TRIAL = Trial("ATLAS-Bandit-v0", seed=0, budget=11, constants={"horizon": 60, "replicas": 1})
WHOLE = [learn_random, learn_cma, learn_tpe, learn_rules]
"""Learners that spend all of a budget."""


@pytest.mark.parametrize("learn", WHOLE)
def test_a_learner_spends_its_budget_and_finds_the_same_for_the_same_seed(learn):
    outcomes = []
    for seed in (1, 1, 2):
        with Ledger(TRIAL) as ledger:
            learn(ledger, seed)
            outcomes.append(ledger.outcome())
    first, again, other = outcomes
    assert first.candidates == TRIAL.budget
    assert first.program == again.program
    assert [p.best for p in first.curve] == [p.best for p in again.curve] != [p.best for p in other.curve]
    assert first.score >= first.curve[0].best == again.curve[0].best


def test_nothing_is_asked_for_by_the_start_and_every_hand_written_program_once():
    with Ledger(TRIAL) as ledger:
        learn_start(ledger, 0)
        assert (ledger.candidates, ledger.best[0]) == (0, TRIAL.start)
        learn_expert(ledger, 0)
        found = ledger.outcome()
    scored = make_task("ATLAS-Bandit-v0").programs.values()
    assert found.candidates == min(TRIAL.budget, len(scored))
    assert found.program in [expert.program for expert in scored]


def test_a_failed_program_is_refused_and_the_start_is_no_candidate():
    with Ledger(TRIAL) as ledger:
        assert ledger.propose("def policy(): pass") == ledger.task.worst_score
        assert ledger.score("# a comment more\n" + TRIAL.start).ok
        found = ledger.outcome()
    assert (found.candidates, found.evaluated, sum(found.statuses.values())) == (1, 1, 1)
    assert "ok" not in found.statuses
    assert found.curve[-1].best == found.curve[0].best == found.score


def test_threads_share_a_budget_and_nobody_exceeds_it():
    with Ledger(TRIAL) as ledger:
        with ThreadPoolExecutor(8) as pool:
            asked = list(pool.map(lambda _: ledger.ask(), range(40)))
        assert sum(asked) == ledger.candidates == TRIAL.budget
        with pytest.raises(ValueError, match="spent"):
            ledger.propose(TRIAL.start)


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_the_start_is_a_point_of_its_open_numbers(env_id):
    task = make_task(env_id)
    template = open_numbers(task.starts["named"], task.function)
    assert program_key(template.program(np.ones(template.size))) != program_key(task.starts["named"])
    named = {p.name: (p.low, p.high) for p in template.parameters}
    assert all(f"    {name} = " in task.starts["named"] for name in named)
    values = {name: float(task.starts["named"].split(f"    {name} = ")[1].split("\n")[0]) for name in named}
    assert all(low <= values[name] <= high for name, (low, high) in named.items())
    assert program_key(template.fill(**{n: type(v)(v) for n, v in values.items()})) is not None


def test_a_program_without_numbers_cannot_be_searched():
    with pytest.raises(ValueError, match="no number"):
        open_numbers("def f(x):\n    return 2 * x\n", "f")


def test_the_gap_is_positive_for_a_worse_score():
    assert relative_gap([-0.23, -0.23], [-0.2, -0.2]) == pytest.approx(0.15)
