"""Names and numbers of a run's metrics."""

import pytest

from experiments.metrics import RoundHistory, final_row, strategist_changes, supporter_row
from tests.experiments.report.synthetic import Layout, make_run
from trainers.store import RunStore


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "run", Layout(rounds=4))


def test_the_history_of_a_stored_run(folder):
    with RunStore.open_readonly(folder) as store:
        rows = RoundHistory(groups=1).extend(store)
        candidates = list(store.candidates())
    assert [row["round"] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        known = [c for c in candidates if c.round <= row["round"] and c.score is not None]
        here = [c.score for c in known if c.round == row["round"]]
        assert row["explore/best"] == max(c.score for c in known)
        assert row["explore/mean"] == pytest.approx(sum(here) / len(here))
        assert row["explore/samples"] == 12
        assert row["status/ok"] == len(here)
        assert row["island/0/best"] == max(c.score for c in known if c.island == 0)


def test_a_history_that_is_kept_equals_one_read_at_once(tmp_path):
    folder = make_run(tmp_path / "run", Layout(rounds=3), finished=False)
    kept = RoundHistory(groups=1)
    with RunStore.open_readonly(folder) as store:
        first = list(kept.extend(store))
        assert kept.extend(store) == first == RoundHistory(groups=1).extend(store)


def test_a_round_counts_when_all_its_groups_are_there(folder):
    with RunStore.open_readonly(folder) as store:
        assert RoundHistory(groups=2).extend(store) == []


def test_the_final_row_is_the_best_program(folder):
    with RunStore.open_readonly(folder) as store:
        row = final_row(store)
        best = max(c.score for c in store.candidates() if c.score is not None)
    assert row["best_score"] == best
    assert row["held_out_score"] == pytest.approx(best - 0.002 + 0.0045)


def test_a_strategist_call_is_read_as_it_is_written():
    call = {"role": "strategist", "status": "ok", "outcome": "beta = 0.15, learning_rate = 1e-05 | x = 3"}
    assert strategist_changes(call) == {"beta": 0.15, "learning_rate": 1e-5}
    assert strategist_changes(call | {"outcome": "no change | beta = 3"}) == {}
    assert strategist_changes(call | {"status": "skipped"}) == {}
    assert strategist_changes(call | {"role": "inspector"}) == {}


def test_supporters_are_counted_with_what_they_cost():
    calls = [
        {
            "role": "strategist",
            "status": "ok",
            "outcome": "epochs = 2 | x",
            "prompt_tokens": 10,
            "seconds": 0.5,
        },
        {"role": "inspector", "status": "skipped", "completion_tokens": 3, "seconds": 1.0},
    ]
    assert supporter_row(calls) == {
        "supporters/calls": 2, "supporters/answered": 1, "supporters/tokens": 13, "supporters/seconds": 1.5,
        "strategist/changes": 1, "strategist/epochs": 2.0,
    }  # fmt: skip
    assert supporter_row([]) == {}
