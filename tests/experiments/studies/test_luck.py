"""What improves on a run's own draw is counted again on others."""

from dataclasses import replace

import pandas as pd
import pytest

from atlas_gym import make_task
from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.experiments.studies import known_lines, luck
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.loop.config import load_config, save_config
from atlas_gym.trainers.store.store import RunStore
from tests.trainers.samples import PROPOSAL, RECORD

START = make_task(known_lines.ENV).starts[known_lines.START]


def edits() -> list[CandidateRecord]:
    """One that fades old rewards, which is worth much on any draw, and the start again, favoured by a draw."""
    task = make_task(known_lines.ENV, **known_lines.UNSEEN)
    proposal = known_lines.proposals(task, ())[0]
    programs = [proposal.assemble(known_lines.LINES[0][1]), START]
    return [
        replace(
            RECORD, id=60 + sample, round=1, island=0, parent_id=0, program=program, program_key=f"key {sample}",
            score=-0.1, parent_score=-0.2, prompt=PROPOSAL.prompt,
        )
        for sample, program in enumerate(programs)
    ]  # fmt: skip


def a_run(folder):
    settings = {"start": known_lines.START, "env_args": known_lines.UNSEEN}
    seed = replace(RECORD, id=0, round=0, island=0, origin="seed", parent_id=None, prompt="", program=START)
    lucky = edits()[1]
    pair = PreferencePair(lucky.prompt, lucky.completion, " 9\n", "improving", 0.1, lucky.id, 60, "window =")
    with RunStore(folder) as store:
        store.add_unit(0, 0, [seed], {})
        store.add_unit(1, 0, edits(), {}, [replace(PROPOSAL, island=0)])
        store.add_phase(1, 1, False, {"phase": 1, "round": 1}, [pair])
    save_config(load_config(None, settings), folder / "config.yaml")
    return folder


def test_an_edit_that_its_draw_favoured_is_not_borne_out(tmp_path, capsys):
    luck.main([str(a_run(tmp_path / "run")), "--output", str(tmp_path / "luck.csv")])
    data = pd.read_csv(tmp_path / "luck.csv")
    assert list(data.what) == ["agent's edits", "pairs of phase 1"]
    assert list(data.improving) == [2, 1]
    assert list(data.borne_out) == [1, 0]
    assert "0.5" in capsys.readouterr().out


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(SystemExit, match="Error"):
        luck.main([str(tmp_path)])
