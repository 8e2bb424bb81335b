"""Names and numbers of a run's metrics."""

import pytest

from experiments.loggers.metrics import RoundHistory, final_row, phase_row, supporter_row
from tests.experiments.report.synthetic import Layout, make_run
from trainers.store.store import RunStore


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
    assert row["held_out_gap"] == pytest.approx(-0.0025)


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
    }  # fmt: skip
    assert supporter_row([]) == {}


def test_a_phase_row_holds_both_sides_of_the_gate_and_the_strategists_settings(tmp_path):
    with RunStore.open_readonly(make_run(tmp_path / "tuned", Layout(rounds=5))) as store:
        (stored,) = store.phases()
    row = phase_row(stored, [])
    assert row["gate/gain"] == stored["decision"]["gain"]
    assert row["gate/max_kl"] == stored["decision"]["max_kl"]
    assert (row["strategist/changes"], row["strategist/beta"]) == (2, 0.15)
    assert (row["phase/pairs"], row["phase/taught"]) == (64, 24)
    del stored["chosen_from"]
    assert "phase/taught" not in phase_row(stored, [])
    ungated = phase_row(stored | {"decision": None, "gain": None, "gain_error": None}, [])
    assert "gate/min_gain" not in ungated
    assert "gate/gain" not in ungated
    assert ungated["gate/kl"] == stored["kl"]
    skipped = phase_row({"phase": 3, "round": 8, "skipped": "idle"}, [])
    assert skipped == {"phase": 3, "phase/round": 8, "phase/skipped": 1}
