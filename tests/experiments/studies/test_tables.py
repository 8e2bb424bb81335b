"""Tables from hand-made rows: means, standard errors, rates."""

import math

import numpy as np
import pandas as pd
import pytest

from atlas_gym.experiments.report import tables as paper
from atlas_gym.experiments.report.tables import CONTROLS
from atlas_gym.experiments.studies import tables


def run(arm, start, seed, best, **more):
    base = {
        "arm": arm, "start": start, "seed": seed, "evaluations": 10 * seed, "distinct": 3, "initial_held_out": -0.2,
        "best_held_out": best, "best_training": best, "improvement": 1 - best / -0.2, "phases": 2, "promoted": 1,
        **{f"changed_{name}": 0 for name in CONTROLS},
    }  # fmt: skip
    return base | more


RUNS = pd.DataFrame(
    [
        run("search", "named", 1, -0.1, phases=0, promoted=0),
        run("atlas", "named", 1, -0.08, changed_beta=2),
        run("search", "inlined", 1, -0.2, phases=0, promoted=0),
        run("search", "named", 2, -0.12, phases=0, promoted=0),
        run("atlas", "named", 2, -0.1, promoted=2),
    ]
)


def test_final_scores_are_means_with_standard_errors_by_start():
    table = paper.final_scores(RUNS)
    assert [row[:3] for row in table.rows] == [
        ("search", "named", "2"), ("atlas", "named", "2"), ("search", "inlined", "1"),
    ]  # fmt: skip
    assert table.rows[0][4] == "-0.1100 ± 0.0100"
    assert table.rows[0][5] == "45.0 ± 5.0 %"
    assert table.rows[2][4] == "-0.2000"


def test_a_missing_cell_is_a_dash():
    assert paper.ablation(RUNS).rows == (("search", "45.0 ± 5.0 %", "0.0 %"), ("atlas", "55.0 ± 5.0 %", "–"))


def test_rates_are_over_all_phases():
    (row,) = paper.interventions(RUNS).rows
    assert row == ("atlas", "named", "4", "0%", "50%", "0%", "0%", "75%")
    assert [row[3:] for row in paper.interventions_by_run(RUNS[RUNS.phases > 0]).rows] == [
        ("0/2", "2/2", "0/2", "0/2", "1/2"), ("0/2", "0/2", "0/2", "0/2", "2/2"),
    ]  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_standard_error_is_scipys(n):
    from scipy.stats import sem

    values = np.random.default_rng(n).normal(size=n).tolist()
    assert paper.mean_error(values) == f"{np.mean(values):.4f} ± {sem(values):.4f}"
    assert paper.mean_error([*values, math.nan]) == paper.mean_error(values), "a start that has lost nothing"
    assert paper.mean_error([math.nan]) == "–"


def test_a_short_run_has_thirds_too():
    cell = {"arm": "a", "start": "named"}
    rounds = pd.DataFrame(
        [cell | {"round": n, "valid_share": n / 4, "distinct_share": n / 8} for n in (1, 2)]
    )
    ((*_, first, last, _, _, _),) = tables.shares(pd.DataFrame([cell | {"distinct": 3}]), rounds).rows
    assert (first, last) == ("0.25", "0.50")


def test_methods_are_compared_seed_by_seed_in_words():
    def runs(arm, *improvements):
        return [
            {"arm": arm, "start": "named", "seed": s, "improvement": v} for s, v in enumerate(improvements)
        ]

    rows = [
        *runs("search", 0.1, 0.2, 0.3),
        *runs("a", 0.21, 0.31, 0.4),
        *runs("b", 0.3, 0.1, 0.4),
        *runs("c", 0.5),
    ]
    found = tables.comparisons(pd.DataFrame(rows)).rows
    assert [(row[0], row[2], row[-1]) for row in found] == [
        ("a", "search", "better"), ("b", "search", "not told apart"),
    ]  # fmt: skip
    assert found[0][4] == "+10.7 [+9.2, +12.1]"


def test_an_arm_whose_improvement_is_undefined_takes_no_others_away():
    rows = [
        {"arm": arm, "start": "named", "seed": s, "improvement": math.nan if arm == "b" else 0.1 * s}
        for arm in "abc"
        for s in (0, 1)
    ]
    assert [row[0] for row in tables.comparisons(pd.DataFrame(rows)).rows] == ["c"]


def test_speed_is_counted_in_programs_until_the_first_methods_last_score():
    def curve(arm, seed, *points):
        return [
            {"arm": arm, "start": "named", "seed": seed, "evaluations": n, "best_training": score}
            for n, score in points
        ]

    rows = [
        *curve("search", 0, (6, -0.4), (80, -0.3), (90, -0.3)),
        *curve("search", 1, (6, -0.4), (40, -0.2), (90, -0.2)),
        *curve("fast", 0, (6, -0.4), (20, -0.3), (90, -0.3)),
        *curve("fast", 1, (6, -0.4), (20, -0.1), (90, -0.1)),
        *curve("slow", 0, (6, -0.4), (90, -0.31)),
        *curve("slow", 1, (6, -0.4), (80, -0.2), (90, -0.2)),
        *curve("once", 1, (6, -0.4), (10, -0.15), (90, -0.15)),
    ]
    fast, slow, once = tables.speed(pd.DataFrame(rows)).rows
    half = 12.706 * np.log(2) / 2  # Student's t of two values, the logarithms of 1/4 and 1/2
    mean = np.log(1 / 4) / 2 + np.log(1 / 2) / 2
    assert fast[3:] == (
        "2 of 2", "20, 20", "80, 40",
        f"{np.exp(mean):.2f} [{np.exp(mean - half):.2f}, {np.exp(mean + half):.2f}]",
    )  # fmt: skip
    assert slow[3:] == ("1 of 2", "never, 80", "80, 40", "–")
    assert once[3:] == ("1 of 1", "10", "40", "0.25")
    assert tables.speed(pd.DataFrame()).rows == ()


def test_learning_is_counted_over_seeds_after_the_last_phase():
    def rows(arm, phase, *tuned):
        row = {"arm": arm, "start": "named", "phase": phase, "measure": "validity", "base": 0.2}
        row |= {"difference": 0.15, "half_width": 0.04}
        return [row | {"seed": s, "tuned": v} for s, v in enumerate(tuned)]

    data = pd.DataFrame([*rows("own", 1, 0.9, 0.9), *rows("own", 2, 0.3, 0.5), *rows("taught", 2, 0.4, 0.6)])
    own, taught = tables.learning(data).rows
    half = 12.706 * 0.1  # Student's t of two values, 0.3 and 0.5
    assert own[:5] == ("validity", "named", "own", "2", "0.200")
    assert own[7:] == ("", "")
    assert own[5] == f"0.400 [{0.4 - half:.3f}, {0.4 + half:.3f}]"
    mean, half = np.log(1.5 * 2.5) / 2, 12.706 * np.log(2.5 / 1.5) / 2  # of the ratios' logarithms
    assert own[6] == f"{np.exp(mean):.2f} [{np.exp(mean - half):.2f}, {np.exp(mean + half):.2f}]"
    assert taught[8] == "0.100 [0.100, 0.100]"
    assert tables.learning(data[data.seed == 0]).rows[1][5:] == ("0.400", "2.00", "+0.150 ± 0.040", "0.100")
    assert tables.learning(pd.DataFrame()).rows == ()


def test_by_instance_is_a_paired_t_interval_over_the_means_of_seeds():
    from scipy.stats import ttest_1samp

    gains = {
        ("search", 0): (0.1, 0.0, 0.2), ("atlas", 0): (0.3, 0.1, 0.6),
        ("search", 1): (0.1, 0.2, 0.0), ("atlas", 1): (0.2, 0.2, 0.5),
    }  # fmt: skip
    rows = pd.DataFrame([
        {"arm": arm, "start": "named", "seed": seed, "instance": i, "improvement": gain}
        for (arm, seed), own in gains.items()
        for i, gain in enumerate(own)
    ])  # fmt: skip
    ((arm, _, against, count, text, _),) = tables.by_instance(rows).rows
    assert (arm, against, count) == ("atlas", "search", "3")
    differences = np.mean([np.subtract(gains["atlas", s], gains["search", s]) for s in (0, 1)], axis=0)
    interval = ttest_1samp(100 * differences, 0).confidence_interval(0.95)
    assert text == f"{100 * differences.mean():+.1f} [{interval.low:+.1f}, {interval.high:+.1f}]"


def test_one_instance_has_no_interval():
    assert tables.by_instance(pd.DataFrame()).rows == ()
