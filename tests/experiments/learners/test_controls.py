"""The ledger's count, and the learners that cost no model, on bandits that take milliseconds."""

import pytest

pytest.importorskip("cma", reason="needs the extra `optimisers`")
pytest.importorskip("optuna", reason="needs the extra `optimisers`")
pytest.importorskip("stable_baselines3", reason="needs the extra `sb3`")

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from atlas_gym import make_task
from atlas_gym.experiments.learners.changes import Change
from atlas_gym.experiments.learners.controls import learn_expert, learn_rules, learn_start
from atlas_gym.experiments.learners.entries import ENTRIES
from atlas_gym.experiments.learners.ledger import BudgetSpent, Ledger, Trial
from atlas_gym.experiments.learners.optimisers import learn_cma, learn_random, learn_tpe
from atlas_gym.experiments.learners.ppo_template import learn_ppo

TRIAL = Trial("ATLAS-Bandit-v0", seed=0, budget=11, constants={"horizon": 60, "replicas": 1})
WHOLE = [learn_random, learn_cma, learn_tpe, learn_rules, learn_ppo]
"""Learners that spend all of a budget."""


class Noted(Ledger):
    """A ledger that keeps every program."""

    def __init__(self, trial):
        super().__init__(trial)
        self.programs = []

    def note(self, program, evaluation):
        self.programs.append(program)
        super().note(program, evaluation)


@pytest.mark.parametrize("learn", WHOLE)
def test_a_learner_spends_its_budget_and_finds_the_same_for_the_same_seed(learn):
    ledgers = []
    for seed in (1, 1, 2):
        with Noted(TRIAL) as ledger:
            learn(ledger, seed)
        ledgers.append(ledger)
    assert ledgers[0].programs == ledgers[1].programs != ledgers[2].programs
    first, again = (ledger.outcome() for ledger in ledgers[:2])
    assert first.candidates == first.evaluated == TRIAL.budget or learn is learn_ppo
    assert 0.5 * TRIAL.budget < first.candidates <= TRIAL.budget
    assert first.program == again.program
    assert [p.best for p in first.curve] == [p.best for p in again.curve]
    assert first.score >= first.curve[0].best == again.curve[0].best


def test_nothing_is_asked_for_by_the_start_and_every_hand_written_program_once():
    with Ledger(TRIAL) as ledger:
        learn_start(ledger, 0)
        assert (ledger.candidates, ledger.best[0]) == (0, TRIAL.start)
        learn_expert(ledger, 0)
    found = ledger.outcome()
    scored = make_task("ATLAS-Bandit-v0").programs.values()
    assert found.candidates == min(TRIAL.budget, len(scored))
    assert found.program in [TRIAL.start, *(expert.program for expert in scored)]


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
        with pytest.raises(BudgetSpent):
            ledger.propose(TRIAL.start)


@pytest.mark.parametrize("limits", [{"tokens": 30}, {"seconds": 0.0}])
def test_tokens_and_seconds_end_a_row_too(limits):
    trial = replace(TRIAL, **limits)
    with Ledger(trial) as ledger:
        while True:
            ledger.propose(TRIAL.start)
            ledger.written(10)
    assert ledger.candidates == (3 if "tokens" in limits else 0)
    assert trial.limits == f"11 candidates or {'30 tokens' if 'tokens' in limits else '0 seconds'}"


def test_the_middle_of_the_template_is_where_the_optimisers_begin_and_is_no_candidate_of_theirs():
    template = make_task("ATLAS-Bandit-v0").template()
    with Ledger(TRIAL) as ledger:
        assert ledger.score(template.program([0.0] * template.size)).score == ledger.best[1]


def test_what_ppo_evaluates_is_scored_on_the_ledgers_task():
    with Ledger(TRIAL) as ledger:
        learn_ppo(ledger, 1)
        program, score = ledger.best
        assert ledger.score(program).score == score


def test_rows_of_other_peoples_libraries_say_what_differs_from_their_defaults():
    changes = {name: ENTRIES[name].changes(replace(TRIAL, budget=200)) for name in ("CMA-ES", "TPE", "PPO")}
    assert changes["CMA-ES"]["bounds"].value == [-1.0, 1.0]
    assert not changes["TPE"]
    few = "the library's own are for millions of cheap steps, and these are few"
    assert changes["PPO"]["n_steps"] == Change(25, 2048, few)
    assert changes["PPO"]["learning_rate"] == Change(3e-3, 3e-4, few)


def test_what_is_the_default_is_no_change():
    trl = pytest.importorskip("trl", reason="needs the extra `learn`")
    changes = ENTRIES["GRPO"].changes(TRIAL)
    usual = trl.GRPOConfig.__dataclass_fields__
    assert changes["max_completion_length"].value == 24
    assert all(change.value != usual[name].default for name, change in changes.items())
    assert "learning_rate" not in changes
