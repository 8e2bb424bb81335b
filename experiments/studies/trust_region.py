"""Where does the KL budget lie? `python -m experiments.studies.trust_region RUN` replays a run's first phase twice.

Once with the run's own settings, and once as a runaway (many epochs at a high learning rate), on the same pairs,
and shows what the gate's Eq. 3 says of each. A budget is useful if it lets the first pass and stops the second. The
score side of Eq. 5 is held at "no worse" here, so that the trust region alone decides.
"""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from atlas_gym.arguments import Parser

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # see experiments.run

import torch
from rich.console import Console
from rich.table import Table

from agents.models.loading import resolve_model
from agents.models.policy import Policy
from trainers.data.pairs import PreferencePair
from trainers.evodpo.phase import run_phase
from trainers.evodpo.settings import PhaseSettings
from trainers.loop.config import RunConfig, load_config
from trainers.store.plain import SettingsError
from trainers.store.store import RunStore, StoreError

RUNAWAY: dict[str, Any] = {"epochs": 3, "learning_rate": 1e-3, "target_kl": 0.0}
"""What turns a normal phase into a runaway: the rate is five times the default."""


def main(arguments: list[str] | None = None) -> int:
    """Print both phases side by side; returns 0 if the budget separates them."""
    parser = Parser(prog="python -m experiments.studies.trust_region", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a run with at least one phase")
    options = parser.parse_args(arguments)
    try:
        config, pairs = load_config(options.run / "config.yaml", {}), first_pairs(options.run)
    except (SettingsError, StoreError) as error:
        raise SystemExit(f"Error: {error}") from error
    torch.set_num_threads(config.torch_threads)
    table = Table("phase", "epochs", "learning rate", "KL per token", "budget", "gate")
    passed = []
    for name, settings in (("normal", config.phase), ("runaway", replace(config.phase, **RUNAWAY))):
        kl, promoted = replay(config, pairs, settings)
        passed.append(promoted)
        table.add_row(
            name, str(settings.epochs), f"{settings.learning_rate:g}", f"{kl:.3f}", f"{config.gate.max_kl:g}",
            "promoted" if promoted else "kept",
        )  # fmt: skip
    Console().print(table)
    return 0 if passed == [True, False] else 1


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
    policy = Policy.load(resolve_model(config.model), lora=config.lora, seed=config.seed)
    gate = replace(config.gate, min_gain=0.0, standard_errors=0.0)
    result = run_phase(
        policy, pairs, replace(settings, checkpoints=0), gate, lambda _, prompts: [0.0] * len(prompts),
        phase=1, seed=config.seed,
    )  # fmt: skip
    return result.candidates[result.chosen].kl, result.promoted


if __name__ == "__main__":
    sys.exit(main())
