"""Where does the KL budget lie? `python -m experiments.studies.trust_region RUN …` replays a run's first phase twice.

Once with the run's own settings, and once as a runaway (many epochs at a high learning rate), on the same pairs,
and shows what the gate's Eq. 3 says of each. A budget is useful if it lets the first pass and stops the second. The
score side of Eq. 5 is held at "no worse" here, so that the trust region alone decides.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.studies.measuring import base_policy, measure
from trainers.data.pairs import PreferencePair
from trainers.evodpo.phase import run_phase
from trainers.evodpo.settings import PhaseSettings
from trainers.loop.config import RunConfig, load_config
from trainers.store.store import RunStore, StoreError

RUNAWAY: dict[str, Any] = {"epochs": 3, "learning_rate": 1e-3, "target_kl": 0.0}
"""What turns a normal phase into a runaway: the rate is five times the default."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both phases of each run."""
    measure("trust_region", __doc__, _rows, arguments)


def _rows(options: Namespace) -> Iterator[list[dict[str, Any]]]:
    for run in options.runs:
        config, pairs = load_config(run / "config.yaml", {}), first_pairs(run)
        rows = []
        for name, phase in (("normal", config.phase), ("runaway", replace(config.phase, **RUNAWAY))):
            kl, promoted = replay(config, pairs, phase)
            rate, budget = phase.learning_rate, config.gate.max_kl
            rows.append({"run": run.name, "phase": name, "epochs": phase.epochs, "learning_rate": rate, "kl": kl,
                         "budget": budget, "gate": "promoted" if promoted else "kept"})  # fmt: skip
        yield rows


def first_pairs(run: Path) -> list[PreferencePair]:
    """The pairs of a run's first phase.

    Raises:
        StoreError: there is no run, or it has had no phase yet.
    """
    with RunStore.open_readonly(run) as store:
        pairs = [PreferencePair(**pair) for pair in store.phase_pairs(1)]
    if not pairs:
        raise StoreError(f"{run} has no phase with pairs yet")
    return pairs


def replay(config: RunConfig, pairs: list[PreferencePair], settings: PhaseSettings) -> tuple[float, bool]:
    """K̂L of the candidate that Eq. 4 chose, and whether Eq. 5 promoted it, from the base model."""
    policy = base_policy(config)
    gate = replace(config.gate, min_gain=0.0, standard_errors=0.0)
    result = run_phase(
        policy, pairs, replace(settings, checkpoints=0), gate, lambda _, prompts: [0.0] * len(prompts),
        phase=1, seed=config.seed,
    )  # fmt: skip
    return result.candidates[result.chosen].kl, result.promoted


if __name__ == "__main__":
    main()
