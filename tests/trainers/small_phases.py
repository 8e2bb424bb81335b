"""Phases of the tiny model: pairs, settings, scorers that know each adapter's score."""

import dataclasses

from atlas_gym.agents.models.policy import POLICY, REFERENCE
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.dpo.phase import run_phase
from atlas_gym.trainers.dpo.settings import GateSettings, PhaseSettings

PROMPTS = ["window =", "lam =", "def f(x):\n    y =", "scores = base +", "alpha ="]
PAIRS = [
    PreferencePair(prompt, good, bad, "score", 0.1, 2 * i, 2 * i + 1, "site")
    for i, (prompt, good, bad) in enumerate(
        (prompt, f" {k}\n", f" x{k}(\n") for prompt in PROMPTS for k in range(4)
    )
]
SETTINGS = PhaseSettings(learning_rate=5e-3, epochs=1, batch_size=4, target_kl=0.0, checks=3, checkpoints=2)
OPEN = GateSettings(min_gain=0.0, max_kl=100.0, standard_errors=0.0)


def scores(**by_name):
    """A scorer that knows each adapter's score; prompts differ by a constant, as they would."""

    def score(adapter, prompts):
        return [by_name.get(adapter, 0.0) + 0.1 * i for i in range(len(prompts))]

    return score


BETTER = scores(**{POLICY: 0.5})
WORSE = scores(**{REFERENCE: 0.5})


def run(policy, score=BETTER, settings=SETTINGS, gate=OPEN, phase=1, seed=0, **kwargs):
    return run_phase(
        policy, PAIRS, settings, dataclasses.replace(gate, prompts=3), score, phase=phase, seed=seed, **kwargs
    )


def digests(policy):
    return policy.digest(POLICY), policy.digest(REFERENCE)


def never(adapter, prompts):
    raise AssertionError("only the gated rule asks for scores")
