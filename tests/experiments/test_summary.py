"""The table at the end of a run."""

import io

from rich.console import Console

from atlas_gym.experiments.cli.summary import print_summary
from atlas_gym.experiments.report.data import read_run
from tests.experiments.report.synthetic import Layout, make_run

_ROW = {
    "id": 1,
    "origin": "agent",
    "program": "x = 1",
    "score": -0.1,
    "held_out": -0.2,
    "held_out_scores": [-0.19, -0.21],
}

_SPENT = {"requests": 3, "prompt_tokens": 40, "completion_tokens": 20}


def test_a_large_gap_is_said(tmp_path):
    rows = {
        "initial": _ROW | {"gap": "+0.0100 (chance: up to 0.0300)"},
        "best": _ROW | {"gap": "+0.1000 (chance: up to 0.0300); large: memorised or overfitted"},
    }
    about = {"env": "e", "method": "m", "seed": 0, "rounds": 1, "held_out_seeds": 2, "candidates": 3,
             "evaluated": 2, "valid_share": 1.0, "spending": {"m at u": _SPENT}, "instances": []}  # fmt: skip
    out = io.StringIO()
    print_summary(
        read_run(make_run(tmp_path / "run", Layout(rounds=1))), rows | about, Console(file=out, width=200)
    )
    assert "best: training minus held-out" in out.getvalue()
    assert "-0.2000 ± 0.0100" in out.getvalue()
    assert out.getvalue().count("memorised") == 1
    assert "mean improvement" not in out.getvalue()
    assert "m at u: 3 requests, 40 tokens read, 20 written" in out.getvalue()


def test_several_instances_have_a_line_each(tmp_path):
    own = {"initial": _ROW | {"gap": None}, "best": _ROW | {"gap": None, "score": -0.05, "held_out": -0.1}}
    instances = [{"env_args": {"noise": 0.5}, **own}, {"env_args": {}, **own}]
    about = {"env": "e", "method": "m", "seed": 0, "rounds": 1, "held_out_seeds": 2, "candidates": 3,
             "evaluated": 2, "valid_share": 1.0, "spending": {"m at u": _SPENT}, "instances": instances}  # fmt: skip
    out = io.StringIO()
    print_summary(
        read_run(make_run(tmp_path / "run", Layout(rounds=1))), own | about, Console(file=out, width=200)
    )
    assert "noise 0.5" in out.getvalue()
    assert out.getvalue().count("-0.1000 → -0.0500") == 2
    assert out.getvalue().count("50.0%") == 2  # the mean improvement, on training and on held-out seeds
