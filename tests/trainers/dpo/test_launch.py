"""A phase in two real processes against the same phase in one."""

import dataclasses
from functools import partial

import pytest

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.dpo.launch import LaunchError, train_in_processes
from atlas_gym.trainers.dpo.phase import run_phase
from atlas_gym.trainers.dpo.settings import GateSettings, PhaseSettings
from tests.tiny_model import tuned_policy

PROMPTS = ["window =", "lam =", "def f(x):\n    y =", "scores = base +", "alpha ="]
# Two or three prompts in a batch, completions of different lengths, and a last batch of a single pair.
PAIRS = [
    PreferencePair(prompt, f" {10**k}\n", f" x{k}(\n", "failed", float("inf"), 2 * i, 2 * i + 1, "site")
    for i, (prompt, k) in enumerate((prompt, k) for k in range(5) for prompt in PROMPTS)
]
# All batches of one epoch, however far the policy moves.
SETTINGS = PhaseSettings(learning_rate=5e-3, epochs=1, target_kl=0.0, checkpoints=1, batch_size=4)
TWO = dataclasses.replace(SETTINGS, processes=2)


def phase(policy, settings=SETTINGS, **kwargs):
    def score(adapter, prompts):
        return [float(adapter != REFERENCE)] * len(prompts)

    gate = GateSettings(max_kl=100.0, prompts=3)
    return run_phase(policy, PAIRS, settings, gate, score, phase=1, seed=0, **kwargs)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("supervised", [0.0, 4.0])
@pytest.mark.parametrize("processes", [2, 3])
def test_processes_together_do_what_one_does(folder, tmp_path, processes, supervised):
    alone, together = tuned_policy(folder), tuned_policy(folder)
    wanted = dataclasses.replace(SETTINGS, supervised=supervised)
    expected, shared = phase(alone, wanted), []

    def train(policy, job):
        trained = train_in_processes(policy, job, tmp_path / "jobs")
        shared.append(trained.processes)
        return trained

    found = phase(together, dataclasses.replace(wanted, processes=processes), train=train)
    assert shared == [processes]
    assert len(found.steps) == len(expected.steps) == 7
    for step, other in zip(found.steps, expected.steps, strict=True):
        assert dataclasses.astuple(step) == pytest.approx(dataclasses.astuple(other), rel=1e-4, abs=1e-5)
    for checkpoint, other in zip(found.checkpoints, expected.checkpoints, strict=True):
        assert checkpoint.kl == pytest.approx(other.kl, abs=1e-5)
        assert checkpoint.kl_error == pytest.approx(other.kl_error, abs=1e-5)
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
    found = phase(policy, TWO, train=partial(train_in_processes, folder=tmp_path / "jobs"))
    assert len(found.steps) == 7


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_processes_that_fail_leave_the_policy_as_it_was(folder, tmp_path):
    policy = tuned_policy(folder)
    before = policy.digest(POLICY), policy.digest(REFERENCE)
    impossible = dataclasses.replace(TWO, max_tokens=3)
    with pytest.raises(LaunchError, match="fits into max_tokens"):
        phase(policy, impossible, train=partial(train_in_processes, folder=tmp_path))
    assert (policy.digest(POLICY), policy.digest(REFERENCE)) == before
    assert policy.adapters == (POLICY, REFERENCE)
