"""What is asked of a study's runs: how far a policy went, how near known lines are, what a search found."""

import math
from dataclasses import replace
from statistics import fmean

import pandas as pd
import pytest
import torch

from atlas_gym import make_task
from atlas_gym.agents.models.policy import POLICY, Policy
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.agents.models.tokens import encode_continuation, encode_prompt
from atlas_gym.experiments.studies import endpoints
from atlas_gym.trainers.loop.config import load_config, save_config
from atlas_gym.trainers.store.store import RunStore
from tests.experiments.report.synthetic import Layout, make_run
from tests.trainers.whole_run import config, menu, run

assert config, menu  # fixtures


def asked(folder, output):
    endpoints.main([str(folder), "--output", str(output), "--trust"])
    [row] = pd.read_csv(output).to_dict("records")
    return row


def test_what_a_search_found(tmp_path):
    folder = make_run(
        tmp_path / "run", Layout(instances=2, islands=4, rounds=6, planned_rounds=6, phase_every=9)
    )
    row = asked(folder, tmp_path / "rows.csv")
    with RunStore.open_readonly(folder) as store:
        found = list(store.candidates())
    shares, improving = [], set()
    for instance in (0, 1):
        own = [c for c in found if c.island % 2 == instance]
        [start, *_] = [c.score for c in own if c.round == 0]
        scores = {c.program_key: c.score for c in own if c.round > 0 and c.score is not None}
        shares += [fmean(1 - score / start for score in sorted(scores.values())[-10:])]
        improving |= {
            c.program_key
            for c in own
            if c.round > 0 and c.passed and not c.is_copy and c.score > c.parent_score + 0.002
        }
    assert row["best_ten"] == pytest.approx(fmean(shares), rel=1e-6)
    assert row["distinct_improving"] == len(improving)
    assert math.isnan(row["kl"])


def test_how_far_a_policy_went_and_how_near_known_lines_are(config, tmp_path, capsys):
    run(replace(config, dtype="float32"), tmp_path / "run")
    unfinished = (
        tmp_path / "run" / "adapters" / "phase-009"
    )  # of a phase that was killed before it was stored
    unfinished.mkdir()
    row = asked(tmp_path / "run", tmp_path / "rows.csv")
    unfinished.rmdir()
    assert "nats" in capsys.readouterr().out
    assert row["kl"] > 0
    policy = Policy.load(
        config.model, dtype=torch.float32, lora=LoraSettings(rank=4, alpha=8), seed=config.seed
    )
    expected = [likelihood(policy)]
    policy.restore(POLICY, sorted((tmp_path / "run" / "adapters").glob("phase-*"))[-1] / POLICY)
    expected += [likelihood(policy)]
    assert [row["nats_base"], row["nats"]] == pytest.approx(expected, rel=1e-4)


@torch.no_grad()
def likelihood(policy):
    """Mean log-probability of the bandit's known lines, of one pass of the plain model each."""
    start, own, lines = endpoints.KNOWN["ATLAS-Bandit-v0"]
    task, values = make_task("ATLAS-Bandit-v0", seed=0, split="held_out", **own), []
    program = task.starts[start]
    for label, line in lines:
        style = endpoints.EditLine(task.function)
        [site] = [s for s in style.sites(program) if s.label == label]
        showing = endpoints.Showing(notes=task.call_hints)
        prompt = style.propose(endpoints.parent_of(program, None), site, showing).prompt
        before = encode_prompt(policy.tokenizer, prompt)
        after = encode_continuation(policy.tokenizer, f"{line}\n")
        with policy.using(POLICY) as model:
            logits = model(torch.tensor([before + after])).logits[0, len(before) - 1 : -1]
        values.append(logits.float().log_softmax(-1)[range(len(after)), after].sum().item())
    return fmean(values)


def test_every_known_line_is_one_of_its_task():
    for env, (start, own, lines) in endpoints.KNOWN.items():
        task = make_task(env, seed=0, split="held_out", **own)
        sites = {site.label for site in endpoints.EditLine(task.function).sites(task.starts[start])}
        assert {label for label, _ in lines} <= sites


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(SystemExit, match="Error"):
        endpoints.main([str(tmp_path)])


def test_a_strangers_task_is_not_imported(tmp_path):
    (tmp_path / "task.py").write_text("raise SystemExit('it ran')\n")
    config = replace(load_config(None, {"method": "search"}), env=str(tmp_path / "task.py"))
    save_config(config, tmp_path / "config.yaml")
    with pytest.raises(SystemExit, match="add --trust"):
        endpoints.main([str(tmp_path)])
