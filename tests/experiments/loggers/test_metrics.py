"""Names and numbers of a run's metrics."""

import pytest

from atlas_gym.experiments.loggers.metrics import Progress, final_row, phase_row, step_rows, supporter_row
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.synthetic import Layout, make_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs") / "run", Layout(rounds=5))


def test_a_round_has_its_shares_and_what_exploration_has_come_to(folder):
    progress, rows = Progress(), []
    with RunStore.open_readonly(folder) as store:
        candidates = list(store.candidates())
        for summary in store.round_summaries():
            list(progress.evaluations(store.candidates("c.round = ?", (summary["round"],))))
            rows += [progress.round(summary)] if summary["round"] else []
    assert [row["round"] for row in rows] == [1, 2, 3, 4, 5]
    for row in rows:
        known = [c for c in candidates if c.round <= row["round"] and c.score is not None]
        here = [c for c in known if c.round == row["round"]]
        assert row["score/best"] == max(c.score for c in known)
        assert row["explore/samples"] == 12
        assert row["explore/valid"] == pytest.approx(len(here) / 12)
        own = [c for c in candidates if c.round == row["round"] and c.writer == "edit_line"]
        assert row["writers/edit_line/evaluated"] == len(own)
        assert row["island/0/best"] == max(c.score for c in known if c.island == 0)


def test_the_final_row_says_where_the_run_began_what_it_came_to_and_what_it_spent(folder):
    with RunStore.open_readonly(folder) as store:
        row = final_row(store)
        start, written = store.start(), sum(unit["tokens"] for unit in store.round_summaries(first=1))
        best = max(c.score for c in store.candidates() if c.score is not None)
        tuned = sum(phase["tokens"] for phase in store.phases())
        initial = sum(store.held_out(start.program_key)["scores"]) / 4
        asked = 10 * store.count("supporter_calls")
    assert row["initial_score"] == start.score
    assert row["held_out_score"] == pytest.approx(best - 0.002 + 0.0045)
    assert row["held_out_gap"] == pytest.approx(-0.0025)
    assert row["initial_held_out_score"] == pytest.approx(initial)
    assert row["improvement"] == pytest.approx((row["held_out_score"] - initial) / -initial)
    assert (row["tokens/written"], row["tokens/tuned"], row["tokens/supporters"]) == (written, tuned, asked)


def test_the_final_row_of_several_instances_has_their_means(tmp_path):
    with RunStore.open_readonly(make_run(tmp_path / "run", Layout(rounds=4, instances=3))) as store:
        row = final_row(store)
        bests = [store.best_candidates(1, instance)[0].score for instance in range(3)]
    assert row["held_out_score"] == pytest.approx(sum(bests) / 3 + 0.0025)
    assert row["held_out_gap"] == pytest.approx(-0.0025)


def test_dpos_curves_go_on_over_the_phases():
    steps = [{"step": n, "loss": 0.7 - n / 10, "margin": n / 10} for n in (1, 2)]
    rows = step_rows({"phase": 2, "steps": steps, "kls": [[2, 0.3]]}, before=5)
    assert rows == [
        {"phase": 2, "optimiser_step": 6, "dpo/loss": pytest.approx(0.6), "dpo/margin": 0.1},
        {"phase": 2, "optimiser_step": 7, "dpo/loss": pytest.approx(0.5), "dpo/margin": 0.2, "dpo/kl": 0.3},
    ]
    assert step_rows({"phase": 3, "skipped": "idle"}, before=7) == []


def test_supporters_are_counted_with_what_they_cost():
    calls = [
        {"role": "strategist", "status": "ok", "prompt_tokens": 10, "seconds": 0.5},
        {"role": "inspector", "status": "skipped", "completion_tokens": 3, "seconds": 1.0},
    ]
    assert supporter_row(calls) == {
        "supporters/calls": 2, "supporters/answered": 1, "supporters/tokens": 13, "supporters/seconds": 1.5,
    }  # fmt: skip
    assert supporter_row([]) == {}


def test_a_phase_row_holds_both_sides_of_the_gate_and_the_strategists_settings(folder):
    with RunStore.open_readonly(folder) as store:
        (stored,) = store.phases()
    row = phase_row(stored, [])
    assert row["gate/gain"] == stored["decision"]["gain"]
    assert row["gate/max_kl"] == stored["decision"]["max_kl"]
    assert (row["strategist/changes"], row["strategist/beta"]) == (2, 0.15)
    assert (row["phase/pairs"], row["phase/taught"]) == (64, 24)
    ungated = phase_row(stored | {"decision": None, "gain": None, "gain_error": None}, [])
    assert not {"gate/min_gain", "gate/gain"} & ungated.keys()
    assert ungated["gate/kl"] == stored["kl"]
    skipped = phase_row({"phase": 3, "round": 8, "skipped": "idle"}, [])
    assert skipped == {"phase": 3, "round": 8, "phase/skipped": 1}
