"""A program that remembers its task does not win on held-out tasks, and is seen."""

from concurrent.futures import Future
from dataclasses import replace

import pytest

from atlas_gym import make_task
from atlas_gym.evaluation import ConfinedEvaluator, Evaluation, Status
from atlas_gym.hidden_streams import SECRET_VARIABLE
from atlas_gym.tasks.bandit.bare import play_bare
from atlas_gym.tasks.bandit.experts import EXPERTS
from atlas_gym.tasks.bandit.instances import draw_instances
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.confirmation import LARGE, confirm, held_out_gap
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.samples import RECORD

ENV = "ATLAS-Bandit-v0"
SIZE = {"horizon": 100, "replicas": 10}
KALMAN = EXPERTS["kalman"].program

_TABLE = """

TABLES = {tables!r}
remembered = {{}}
fallback = policy


def policy(context, history, t):
    arm = fallback(context, history, t)
    if t == 0:
        remembered["arms"] = TABLES.get(f"{{context[0, 0]:.9f}}", "")
    arms = remembered["arms"]
    return int(arms[t]) if t < len(arms) else arm
"""


def memoriser(task) -> str:
    """The best expert with the arms of the best noisy rewards, by the first number that a replica shows."""
    instances = task.drawn()
    arms = instances.rewards.argmax(axis=-1)
    tables = {
        f"{instances.contexts[0, r, 0, 0]:.9f}": "".join(map(str, arms[:, r])) for r in range(task.replicas)
    }
    assert sum(map(len, tables.values())) == 1000
    return KALMAN + _TABLE.format(tables=tables)


class BarePool:
    """Evaluates trusted programs in this process."""

    def submit(self, program, task):
        future = Future()
        try:
            future.set_result(Evaluation(Status.OK, play_bare(program, task)))
        except RuntimeError as error:
            future.set_result(Evaluation(Status.ERROR, None, str(error)))
        return future


@pytest.fixture(params=["one", "another", "a third"])
def secret(request, monkeypatch):
    """What holds must hold on every machine."""
    monkeypatch.setenv(SECRET_VARIABLE, request.param)
    draw_instances.cache_clear()
    yield
    draw_instances.cache_clear()


def summary_of(tmp_path, program):
    """What a run comes to whose best program is this one."""
    task, start = make_task(ENV, seed=0, **SIZE), EXPERTS["sw_linucb"].program
    records = [
        replace(RECORD, **change)
        for change in (
            {"id": 0, "round": 0, "origin": "seed", "program": start, "program_key": "start",
             "score": play_bare(start, task)},
            {"id": 1, "round": 1, "program": program, "program_key": "best", "score": play_bare(program, task)},
        )
    ]  # fmt: skip
    config = RunConfig(env=ENV, env_args=SIZE, seed=0, method="search", rounds=1, held_out_seeds=16)
    with RunStore(tmp_path / "run") as store:
        for record in records:
            store.add_unit(record.round, 0, [record], {})
        return confirm(config, store, BarePool(), lambda *_: None)


def test_a_table_of_a_thousand_arms_wins_its_task_and_no_other_and_is_seen(secret, tmp_path):
    honest = summary_of(tmp_path / "honest", KALMAN)["best"]
    table = summary_of(tmp_path / "table", memoriser(make_task(ENV, seed=0, **SIZE)))["best"]
    assert table["score"] > honest["score"] + 0.02
    assert table["held_out_scores"] == honest["held_out_scores"]
    assert "memorised" in table["gap"]
    assert "memorised" not in honest["gap"]


def test_a_program_cannot_choose_the_tasks_it_is_confirmed_on(tmp_path):
    """One that fails wherever it does not know the task has the worst score there, and is seen."""
    known = make_task(ENV, seed=0, **SIZE).drawn().contexts[0, :, 0, 0].tolist()
    picky = KALMAN.replace(
        "    d = context.shape[1]\n",
        f"    if t == 0 and context[0, 0] not in {known}:\n"
        "        raise RuntimeError('not my task')\n"
        "    d = context.shape[1]\n",
    )
    best = summary_of(tmp_path, picky)["best"]
    assert best["held_out_scores"] == [-3.0] * 16
    assert "fails on 16 held-out tasks" in best["gap"]


def test_a_failure_on_the_last_of_several_tasks_counts_as_the_worst_score_there(tmp_path):
    failing = "def policy(context, history, t):\n    raise RuntimeError\n"
    drift = ({}, {"contexts": "gaussian"})
    config = RunConfig(
        env=ENV, env_args=SIZE, method="search", rounds=2, phase_every=1, held_out_seeds=2, drift=drift
    )
    with RunStore(tmp_path) as store:
        for id_, round_, origin in ((0, 0, "seed"), (1, 2, "carried")):
            record = replace(RECORD, id=id_, round=round_, origin=origin, program=failing)
            store.add_unit(round_, 0, [record], {})
        best = confirm(config, store, BarePool(), lambda *_: None)["best"]
    assert best["held_out_scores"] == [-11.0, -11.0]


def test_an_error_text_carries_the_task_out_and_no_other_task():
    """What the decision is about: the contexts of a fixed task can be read, bit by bit, and do not help elsewhere."""
    spy = "def policy(context, history, t):\n    raise ValueError(float(context[0, 0]))\n"
    with ConfinedEvaluator() as evaluator:
        texts = [
            evaluator.evaluate(spy, make_task(ENV, seed=0, split=split, **SIZE)).detail
            for split in ("train", "held_out")
        ]
    first = make_task(ENV, seed=0, **SIZE).drawn().contexts[0, 0, 0, 0]
    assert str(first) in texts[0]
    assert str(first) not in texts[1]


def test_the_gap_is_large_beyond_the_spread_of_the_held_out_scores():
    held_out = [-0.3, -0.1, -0.2, -0.2]
    gap = held_out_gap(-0.1, held_out)
    assert gap.gap == pytest.approx(0.1)
    assert gap.chance == pytest.approx(LARGE * (0.02 / 3 * 5 / 4) ** 0.5)
    assert not gap.large
    assert held_out_gap(-0.2 + gap.chance + 1e-9, held_out).large
    assert not held_out_gap(-10.0, held_out).large
    assert held_out_gap(-0.2, held_out, failed=1).large


def test_few_held_out_scores_say_little():
    assert held_out_gap(-0.1, []) is None
    assert not held_out_gap(0.0, [-1.0]).large
