"""The single files run as they are copied: a tiny model, few steps, bandits that take milliseconds."""

import json
import subprocess
import sys
from types import ModuleType

import pytest
import torch

from atlas_gym import make_task
from atlas_gym.experiments.learners import evodpo, openevolve, shinka
from tests.tiny_model import save_tiny_model

SMALL = ["horizon=60", "replicas=1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.mark.parametrize("name", ["cma_es", "tpe", "random"])
def test_an_optimiser_finds_the_same_for_the_same_seed_and_something_no_worse_than_most(name):
    pytest.importorskip("cma" if name == "cma_es" else "optuna", reason="needs the extra `optimisers`")
    from atlas_gym.experiments.learners import cma_es, tpe

    main = cma_es.main if name == "cma_es" else tpe.main
    sampler = ["--sampler", "random"] if name == "random" else []
    budget = [*sampler, "--budget", "14", "--held-out", "1"]
    first, again, other = (main([*SMALL, *budget, "--seed", seed]) for seed in ("1", "1", "2"))
    assert first == again
    assert first[0] != other[0]
    assert first[1] > make_task("ATLAS-Bandit-v0", horizon=60, replicas=1).worst_score


def test_ppo_trains_on_a_template_and_a_budget_below_a_batch_is_refused():
    pytest.importorskip("stable_baselines3", reason="needs the extra `sb3`")
    from atlas_gym.experiments.learners import ppo

    found = ppo.main([*SMALL, "--budget", "20", "--batch", "8", "--held-out", "1"])
    assert found["evaluations"] == 16
    assert set(found["numbers"]) == {"window", "lam", "alpha"}
    with pytest.raises(SystemExit):
        ppo.main([*SMALL, "--budget", "5"])


def test_grpo_takes_a_step(model):
    from atlas_gym.experiments.learners import grpo

    (entry,) = grpo.main(["--model", model, "--steps", "1", "--group", "2"])
    assert make_task("Sales-v0").worst_score <= entry["reward"] <= 0.0


@pytest.mark.slow
@pytest.mark.usefixtures("embedded_weights")
def test_grpo_learns():
    from atlas_gym.experiments.learners import grpo

    rewards = [entry["reward"] for entry in grpo.main([])]
    assert sum(rewards[-4:]) / 4 > sum(rewards[:4]) / 4 + 0.3


@pytest.fixture
def run(model, monkeypatch):
    """EvoDPO with a model that writes numbers where numbers stand, good and bad ones, instead of noise."""

    def complete(self, prompt):
        return [f" {float(torch.rand(())):.3f}" for _ in range(7)] + [" nobody"]

    def numbers(program):
        return [site for site in found(program) if site[0].endswith(("alpha =", "lam ="))]

    found = evodpo.sites
    constants = {"ROUNDS": 2, "PAIRS": 4, "LEARNING_RATE": 1e-2, "MIN_GAIN": -10.0}
    for name, value in {"sites": numbers, **constants}.items():
        monkeypatch.setattr(evodpo, name, value)
    monkeypatch.setattr(evodpo.EvoDPO, "complete", complete)
    run = evodpo.EvoDPO("ATLAS-Bandit-v0", {"horizon": 60, "replicas": 1}, model, 0)
    yield run
    run.reward.close()


def test_evodpo_prints_its_phases_and_the_best_program(model, monkeypatch, capsys):
    monkeypatch.setattr(evodpo, "ROUNDS", 1)
    evodpo.main([*SMALL, "--model", model, "--phases", "1"])
    printed = capsys.readouterr().out
    assert printed.startswith("phase 1: {")
    assert "def policy(context, history, t):" in printed


@pytest.mark.parametrize("max_kl", [100.0, 0.0])
def test_evodpo_learns_its_pairs_and_moves_the_reference_within_the_trust_region(run, monkeypatch, max_kl):
    monkeypatch.setattr(evodpo, "MAX_KL", max_kl)
    before = run.weights()
    phase = run.phase()
    assert phase["pairs"] == 4
    assert phase["losses"][0] > phase["losses"][-1]
    assert phase["kl"] > 0
    assert phase["promoted"] == (max_kl > 0)
    moved = any((run.reference[name] != tensor).any() for name, tensor in before.items())
    assert moved == phase["promoted"]


def test_the_divergence_of_evodpo_is_torchs_own(run):
    pair = ("a =", "", " 1", " 2")
    moved = {name: tensor + 0.1 for name, tensor in run.weights().items()}
    tables = []
    for weights in (run.reference, moved):
        evodpo.set_peft_model_state_dict(run.model, weights)
        with torch.no_grad():
            tables.append(run.log_probs(pair[0], pair[2])[0])
    expected = torch.nn.functional.kl_div(*tables, log_target=True, reduction="batchmean").item()
    assert run.kl([pair], moved) == pytest.approx(expected, rel=1e-5)
    assert run.kl([pair], run.reference) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("peer", [openevolve, shinka])
def test_a_peers_evaluation_file_scores_as_the_task_does(peer, tmp_path):
    text = peer.EVALUATOR.format(env_id="ATLAS-BinPacking-v0", seed=3)
    start = make_task("ATLAS-BinPacking-v0").starts["named"]
    for name, program in {"good": start, "bad": "nothing"}.items():
        (tmp_path / f"{name}.py").write_text(program)
    if peer is openevolve:
        module = ModuleType("evaluate")
        exec(text, module.__dict__)
        scores = [module.evaluate(str(tmp_path / f"{name}.py"))["combined_score"] for name in ("good", "bad")]
        module.POOL.close()
    else:
        (tmp_path / "evaluate.py").write_text(text)
        scores, correct = [], []
        for name in ("good", "bad"):
            command = [sys.executable, "evaluate.py", "--program_path", f"{name}.py", "--results_dir", name]
            subprocess.run(command, cwd=tmp_path, check=True)
            scores.append(json.loads((tmp_path / name / "metrics.json").read_text())["combined_score"])
            correct.append(json.loads((tmp_path / name / "correct.json").read_text())["correct"])
        assert correct == [True, False]
    task = make_task("ATLAS-BinPacking-v0", seed=3)
    assert scores[1] == task.worst_score < scores[0] < 0
