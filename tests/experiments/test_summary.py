"""The table at the end of a run."""

import io

from rich.console import Console

from atlas_gym.experiments.cli.summary import print_summary
from atlas_gym.experiments.report.data import read_run
from tests.experiments.report.synthetic import Layout, make_run

_ROW = {
    "id": 1, "origin": "agent", "program": "x = 1", "score": -0.1, "held_out": -0.2, "held_out_scores": [-0.19, -0.21],
    "gap": None,
}  # fmt: skip
_SPENT = {"requests": 3, "prompt_tokens": 40, "completion_tokens": 20}


def printed(folder, instances=(), **rows):
    about = {"env": "e", "method": "m", "seed": 0, "rounds": 1, "held_out_seeds": 2, "candidates": 3,
             "evaluated": 2, "valid_share": 1.0, "spending": {"m at u": _SPENT}, "instances": instances}  # fmt: skip
    out = io.StringIO()
    print_summary(read_run(make_run(folder, Layout(rounds=1))), rows | about, Console(file=out, width=200))
    return out.getvalue()


def test_several_instances_have_a_line_each(tmp_path):
    own = {"initial": _ROW, "best": _ROW | {"score": -0.05, "held_out": -0.1}}
    said = printed(tmp_path / "run", [{"env_args": {"noise": 0.5}, **own}, {"env_args": {}, **own}], **own)
    assert "noise 0.5" in said
    assert said.count("-0.1000 → -0.0500") == 2
    assert said.count("50.0%") == 2  # the mean improvement, on training and on held-out seeds
