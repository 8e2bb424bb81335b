"""What a study keeps of a run, from hand-made candidates."""

import math
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from atlas_gym.experiments.report.data import RunData
from atlas_gym.experiments.studies.rows import curve_rows, round_rows


def run(*outcomes):
    """A run of two instances, one island each, from (round, island, score); each candidate is another program."""
    frame = pd.DataFrame(outcomes, columns=["round", "island", "score"]).assign(new=True)
    data = RunData("run", Path(), {}, frame, (), (), {}, (), {}, (), (), instances=2)
    candidates = [
        SimpleNamespace(
            round=r, score=s, passed=s is not None, is_copy=False, duplicate_of=None, program_key=str(i)
        )
        for i, (r, _, s) in enumerate(outcomes)
    ]
    return SimpleNamespace(curve=data.curve, everything=lambda: iter(candidates))


def test_the_best_score_of_several_instances_is_the_mean_of_theirs():
    found = run((0, 0, -0.1), (0, 1, -0.9), (1, 1, -0.5), (1, 0, None), (2, 0, -0.3), (2, 1, -0.4))
    rows = list(round_rows(found))
    assert [round(row["best_training"], 9) for row in rows] == [-0.5, -0.3, -0.25]
    assert [row["evaluations"] for row in rows] == [2, 4, 6]
    assert [row["valid_share"] for row in rows] == [1, 0.5, 1]
    points = [(row["evaluations"], round(row["best_training"], 9)) for row in curve_rows(found)]
    assert points == [(2, -0.5), (3, -0.3), (6, -0.25)]


def test_without_a_score_on_every_instance_there_is_no_mean():
    rows = list(round_rows(run((0, 0, -0.1), (0, 1, None), (1, 1, None))))
    assert all(math.isnan(row["best_training"]) for row in rows)
