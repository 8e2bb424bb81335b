"""What a phase leaves: plain data, and a word where the chosen side sinks."""

import dataclasses
import json

from atlas_gym.trainers.evodpo.phase_result import late_mean, sinking_warnings
from tests.trainers.small_phases import run


def test_a_chosen_side_that_loses_likelihood_is_reported(policy):
    steps = run(policy).steps
    assert sinking_warnings(steps, 0.1) == []
    sunk = [dataclasses.replace(step, chosen_reward=-1.2) for step in steps]
    (warning,) = sinking_warnings(sunk, 0.1)
    assert "12.0 nats" in warning
    assert "phase.supervised" in warning
    assert late_mean(sunk[:3] + list(steps[3:]), "chosen_reward") == steps[-1].chosen_reward


def test_a_result_is_plain_data(policy):
    record = json.loads(json.dumps(dataclasses.asdict(run(policy))))
    assert record["decision"]["promote"] is True
    assert set(record["seconds"]) == {"train", "kl", "score"}
