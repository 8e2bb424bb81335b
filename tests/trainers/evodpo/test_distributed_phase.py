"""A phase in two real processes against the same phase in one."""

import dataclasses
from itertools import chain
from statistics import fmean

import pytest
import yaml
from datasets import Dataset

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.evodpo import processes
from atlas_gym.trainers.evodpo.distributed_dpo import _Parts, divide
from atlas_gym.trainers.evodpo.launch import LaunchError, launched
from atlas_gym.trainers.evodpo.phase import run_phase
from atlas_gym.trainers.evodpo.settings import GateSettings, LaunchSettings, PhaseSettings
from tests.tiny_model import tuned_policy

PROMPTS = ["window =", "lam =", "def f(x):\n    y =", "scores = base +", "alpha ="]
# Two or three prompts in a batch, completions of different lengths, and a last batch of a single pair.
PAIRS = [
    PreferencePair(prompt, f" {10**k}\n", f" x{k}(\n", "failed", float("inf"), 2 * i, 2 * i + 1, "hole")
    for i, (prompt, k) in enumerate((prompt, k) for k in range(5) for prompt in PROMPTS)
]
# All batches of one epoch, however far the policy moves.
SETTINGS = PhaseSettings(
    learning_rate=5e-3, epochs=1, target_kl=0.0, checkpoints=1, batch_size=4, warmup_steps=2
)


def phase(policy, settings=SETTINGS, **kwargs):
    def score(adapter, prompts):
        return [float(adapter != REFERENCE)] * len(prompts)

    gate = GateSettings(max_kl=100.0, prompts=3)
    return run_phase(policy, PAIRS, settings, gate, score, phase=1, seed=0, **kwargs)


def by_file(tmp_path):
    """Two processes, as a configuration of Accelerate's says."""
    path = tmp_path / "accelerate.yaml"
    # With MULTI_CPU Accelerate starts one process and leaves the others to mpirun.
    values = {
        "compute_environment": "LOCAL_MACHINE", "distributed_type": "MULTI_GPU", "use_cpu": True, "num_machines": 1,
        "num_processes": 2, "machine_rank": 0, "mixed_precision": "no", "main_process_port": 0,
    }  # fmt: skip
    path.write_text(yaml.safe_dump(values))
    return LaunchSettings(config_file=str(path))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("supervised", [0.0, 4.0])
@pytest.mark.parametrize("processes", [2, 3, "by a configuration file"])
def test_processes_together_do_what_one_does(folder, tmp_path, processes, supervised):
    alone, together = tuned_policy(folder), tuned_policy(folder)
    wanted = dataclasses.replace(SETTINGS, supervised=supervised)
    expected = phase(alone, wanted)
    settings = LaunchSettings(processes=processes) if isinstance(processes, int) else by_file(tmp_path)
    launch, shared = launched(settings, tmp_path / "jobs"), []

    def tune(*args):
        tuned = launch(*args)
        shared.append(tuned.processes)
        return tuned

    found = phase(together, wanted, tune=tune)
    assert shared == [processes if isinstance(processes, int) else 2]
    assert len(found.steps) == len(expected.steps) == 7
    for step, other in zip(found.steps, expected.steps, strict=True):
        assert dataclasses.astuple(step) == pytest.approx(dataclasses.astuple(other), rel=1e-4, abs=1e-5)
    for candidate, other in zip(found.candidates, expected.candidates, strict=True):
        assert candidate.kl == pytest.approx(other.kl, abs=1e-5)
        assert candidate.kl_error == pytest.approx(other.kl_error, abs=1e-5)
    for name, tensor in together.tensors(POLICY).items():
        other = alone.tensors(POLICY)[name]
        assert (tensor - other).norm() <= 1e-3 * other.norm(), name
    assert (found.pairs, found.promoted, found.gate_prompts) == (25, True, expected.gate_prompts)
    assert not list((tmp_path / "jobs").iterdir())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_processes_are_shadowed_by_nothing_in_the_working_directory(folder, tmp_path, monkeypatch):
    policy = tuned_policy(folder)
    for name in ("hmac", "random", "json", "tempfile", "inspect", "queue"):
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name} was shadowed')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = phase(policy, tune=launched(LaunchSettings(processes=2), tmp_path / "jobs"))
    assert len(found.steps) == 7


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_processes_that_fail_leave_the_policy_as_it_was(folder, tmp_path):
    policy = tuned_policy(folder)
    before = policy.digest(POLICY), policy.digest(REFERENCE)
    impossible = dataclasses.replace(SETTINGS, max_tokens=3)
    with pytest.raises(LaunchError, match="fits into max_tokens"):
        phase(policy, impossible, tune=launched(LaunchSettings(processes=2), tmp_path))
    assert (policy.digest(POLICY), policy.digest(REFERENCE)) == before
    assert policy.adapters == (POLICY, REFERENCE)


def test_a_batch_is_divided_by_prompts_where_it_can_be():
    assert divide(["a", "b", "a", "b"], 2) == [[0, 2], [1, 3]]
    assert divide(["a", "b", "b", "c", "b"], 2) == [[1, 2, 4], [0, 3]]
    assert divide(["a", "a", "a", "a"], 2) == [[0, 1], [2, 3]]
    assert sorted(map(len, divide(["a", "a", "a"], 2))) == [1, 2]
    assert sorted(map(len, divide(["a", "a", "b"], 4))) == [0, 1, 1, 1]
    assert divide(["a"], 2) == [[0], []]


@pytest.mark.parametrize("size", [2, 3, 5])
def test_shares_make_the_mean_over_processes_that_of_the_batch(monkeypatch, size):
    pairs = Dataset.from_dict(
        {"prompt_ids": [[1], [1], [2], [3]], "chosen_ids": [[4], [5, 6, 7], [8, 9], [4] * 5]}
    )
    weighted: dict[str, list[float]] = {"by pair": [], "by token": []}
    monkeypatch.setattr(processes, "size", lambda: size)
    for rank in range(size):
        monkeypatch.setattr(processes, "rank", lambda rank=rank: rank)
        part = _Parts(pairs, 4, lambda own: {"pairs": own})[0]
        by_pair, by_token = part["shares"]
        chosen = [pair["chosen_ids"] for pair in part["pairs"]]
        weighted["by pair"].append(by_pair * fmean(map(sum, chosen)))
        weighted["by token"].append(by_token * fmean(chain.from_iterable(chosen)))
    every = pairs["chosen_ids"]
    assert fmean(weighted["by pair"]) == pytest.approx(fmean(map(sum, every)))
    assert fmean(weighted["by token"]) == pytest.approx(fmean(chain.from_iterable(every)))


def test_settings_that_make_no_sense_are_refused(tmp_path):
    with pytest.raises(ValueError, match="processes"):
        LaunchSettings(processes=0)
    with pytest.raises(LaunchError, match=r"no file.*accelerate config"):
        launched(LaunchSettings(config_file=str(tmp_path / "missing.yaml")), tmp_path)
