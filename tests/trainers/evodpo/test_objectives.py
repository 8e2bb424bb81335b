"""What is minimised: every loss that a configuration may name, and what stands beside it."""

import dataclasses
import math
from typing import get_args

import pytest

from atlas_gym.agents.models.policy import POLICY
from atlas_gym.trainers.evodpo.settings import Loss
from tests.trainers.small_phases import SETTINGS, never, run


def last_steps(policy, *changes):
    """The last step of a phase under each change of the settings, all from the same policy."""
    start = {name: tensor.detach().clone() for name, tensor in policy.tensors(POLICY).items()}
    found = []
    for change in changes:
        for name, tensor in policy.tensors(POLICY).items():
            tensor.data.copy_(start[name])
        settings = dataclasses.replace(SETTINGS, reference="fixed", **change)
        found.append(run(policy, never, settings).steps[-1])
    return found


def test_a_supervised_term_keeps_the_chosen_side_up(policy):
    without, with_it = last_steps(policy, *({"epochs": 2, "supervised": weight} for weight in (0.0, 1.0)))
    assert with_it.chosen_reward > without.chosen_reward


def test_the_forward_divergence_is_another_loss(policy):
    reverse, forward = last_steps(policy, {"divergence": "reverse_kl"}, {"divergence": "forward_kl"})
    assert reverse.loss != forward.loss


@pytest.mark.parametrize("loss", get_args(Loss))
def test_every_loss_that_may_be_named_can_be_trained(policy, loss):
    settings = dataclasses.replace(SETTINGS, reference="fixed", loss=loss)
    assert all(math.isfinite(step.loss) for step in run(policy, never, settings).steps)


@pytest.mark.parametrize("loss", get_args(Loss))
def test_the_forward_divergence_is_refused_for_what_cannot_be_trained_with_it(policy, loss):
    try:
        settings = dataclasses.replace(SETTINGS, reference="fixed", loss=loss, divergence="forward_kl")
    except ValueError:
        assert loss in ("nca_pair", "bco_pair", "sppo_hard", "aot", "aot_unpaired", "apo_zero", "apo_down")
    else:
        run(policy, never, settings)
