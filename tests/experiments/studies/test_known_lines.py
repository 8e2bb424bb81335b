"""Log-probabilities of lines that are known to be good."""

import pandas as pd
import pytest
import torch

from atlas_gym import make_task
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.evaluation import EvaluatorPool
from atlas_gym.experiments.studies import known_lines
from atlas_gym.trainers.loop.config import load_config, save_config
from tests.tiny_model import save_tiny_model

TASK = make_task(known_lines.ENV, seed=0, split="held_out", **known_lines.UNSEEN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


def one_by_one(model, tokenizer, prompt: str, text: str) -> float:
    """Without packing: a sequence of its own."""
    before, after = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (prompt, text))
    with torch.inference_mode():
        found = model(input_ids=torch.tensor([before + after])).logits[0].log_softmax(-1)
    return sum(float(found[len(before) - 1 + i, token]) for i, token in enumerate(after))


def test_every_line_is_worth_something_where_it_stands():
    with EvaluatorPool(1) as pool:
        found = known_lines.gains(TASK, known_lines.proposals(TASK, ()), pool)
    assert len(found) == len(known_lines.LINES)
    assert min(found) > 0


def test_nats_are_those_of_each_line_alone(folder):
    policy = Policy.load(folder, dtype=torch.float32, lora=LoraSettings(rank=4, alpha=8))
    asked = known_lines.proposals(TASK, TASK.observations())
    found = known_lines.nats(policy, POLICY, asked)
    for proposal, (_, line), value in zip(asked, known_lines.LINES, found, strict=True):
        alone = one_by_one(policy.model, policy.tokenizer, proposal.prompt, f"{line}\n")
        assert value == pytest.approx(alone, rel=1e-4)


def test_a_run_is_asked_under_every_adapter(folder, tmp_path, capsys):
    run = tmp_path / "run"
    settings = {"model": str(folder), "lora": {"rank": 4, "alpha": 8}, "torch_threads": 1, "observe": True}
    policy = Policy.load(folder, lora=LoraSettings(rank=4, alpha=8))
    policy.save(REFERENCE, run / "adapters" / "phase-002" / REFERENCE)
    for name, tensor in policy.tensors(POLICY).items():
        tensor.data += 0.3 if ".lora_B." in name else 0.0
    policy.save(POLICY, run / "adapters" / "phase-002" / POLICY)
    save_config(load_config(None, settings), run / "config.yaml")

    known_lines.main([str(run), "--output", str(tmp_path / "nats.csv")])

    data = pd.read_csv(tmp_path / "nats.csv")
    by_adapter = {name: list(own.nats) for name, own in data.groupby("adapter")}
    assert set(data.phase) == {0, 2}  # the first phase was skipped
    assert by_adapter["base"] == by_adapter["reference"] != by_adapter["policy"]
    assert "np.linspace(0.1, 1.0, len(X))" in capsys.readouterr().out


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(SystemExit, match="Error"):
        known_lines.main([str(tmp_path)])
