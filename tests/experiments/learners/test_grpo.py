"""GRPO on one line: its prompt, its candidates, and two steps with the embedded model, for real."""

import pytest

from atlas_gym import make_task
from atlas_gym.experiments.learners.grpo import COPY, FAILED, GradedReward, halves, learn_grpo, main, train
from atlas_gym.experiments.learners.ledger import Ledger, Trial
from atlas_gym.tasks.registry import BUILT_IN

TRIAL = Trial("ATLAS-Bandit-v0", 0, 8, constants={"horizon": 60, "replicas": 1})


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_a_prompt_is_the_start_up_to_its_last_assignment(env_id):
    start = make_task(env_id).starts["named"]
    head, tail = halves(start)
    assert start.startswith(head)
    assert start.endswith(tail)
    assert head.endswith(" =")
    assert "return" in tail


def test_a_start_without_assignments_is_rewritten_at_its_return():
    assert halves("def f(x):\n    return x\n") == ("def f(x):\n    return", "\n")
    with pytest.raises(ValueError, match="neither"):
        halves("def f(x): ...\n")


def test_every_completion_is_a_candidate_and_tokens_are_counted():
    with Ledger(TRIAL) as ledger:
        reward = GradedReward(ledger)
        own = " context @ theta + alpha * bonus"
        found = reward(
            [own, " nobody", " context @ theta", " context @ theta\n    junk("], [[1, 2], [3], [4], [5]]
        )
        assert (ledger.candidates, ledger.tokens) == (4, 5)
    assert found[0] == found[3] == COPY
    assert found[1] == FAILED
    assert found[2] > COPY


def test_what_cannot_teach_is_refused_before_a_model_is_loaded(monkeypatch, capsys):
    short = Trial("ATLAS-Bandit-v0", 0, 7, constants=TRIAL.constants)
    with (
        Ledger(short) as ledger,
        pytest.raises(ValueError, match="7 candidates does not pay for one group of 8"),
    ):
        learn_grpo(ledger, 0)
    for wrong in (["--group", "1"], ["--steps", "0"]):
        monkeypatch.setattr("sys.argv", ["grpo", *wrong])
        with pytest.raises(SystemExit):
            main()
        assert wrong[0] in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_steps_spend_two_groups():
    with Ledger(TRIAL) as ledger:
        log = train(ledger, "embedded", steps=2, group=4)
        assert ledger.candidates == 8
        assert ledger.tokens > 8
    assert len(log) == 2
    for entry in log:
        assert FAILED <= entry["reward"] <= 1.0
