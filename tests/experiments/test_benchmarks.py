"""The benchmarks' own arithmetic, and each in small; what they measure is for `make bench`."""

import pytest

from atlas_gym.experiments.benchmarks import burgers, calls, compare, evaluation, generation, gpu, phase
from tests.tiny_model import save_tiny_model


def test_contenders_take_turns_and_ratios_are_formed_within_a_round(capsys):
    asked = []
    seconds = iter([9.0, 9.0, 2.0, 6.0, 1.0, 2.0, 4.0, 4.0])  # the first round warms up
    contenders = {name: lambda name=name: asked.append(name) or next(seconds) for name in "ab"}
    compare("title", contenders, 3, unit=1.0)
    assert "".join(asked) == "abababab"
    _, first, second = capsys.readouterr().out.strip().splitlines()
    assert first.split() == ["a", "2.000", "1.00", "(1.00", "to", "1.00)", "of", "a"]
    assert second.split() == ["b", "4.000", "2.00", "(1.00", "to", "3.00)", "of", "a"]


def test_calls_are_measured(capsys):
    calls.main(["--calls", "100", "--repeats", "1"])
    said = capsys.readouterr().out
    assert all(case in said for case in calls.CASES)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_each_benchmark_says_its_ratios(tmp_path, capsys):
    model = str(save_tiny_model(tmp_path))
    evaluation.main(["--repeats", "1"])
    burgers.main(["--repeats", "1", "--steps", "5"])
    generation.main(["--repeats", "1", "--batches", "2", "--model", model])
    gpu.main(["--device", "cpu", "--batches", "4", "--phases", "4", "--epochs", "1", "--model", model])
    phase.main(["--prompts", "1", "--pairs", "2", "--model", model, "--dtype", "float32"])
    said = capsys.readouterr().out
    for contender in ("of bare call", "nested autograd", "transformers' generate", "TRL, checkpointed"):
        assert contender in said
