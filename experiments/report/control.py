"""A run against its frozen control: how far each came, instance by instance, and with how many programs."""

import math
from dataclasses import dataclass
from pathlib import Path

from atlas_gym.intervals import Interval, mean_interval
from experiments.report.data import RunData, best_curve, read_run
from trainers.loop.control import FOLDER


@dataclass(frozen=True)
class AgainstFrozen:
    """The tuned run beside the frozen one."""

    tuned: float
    """Best training score of the tuned run, mean over its instances."""
    frozen: float
    """Of the frozen run."""
    difference: Interval
    """Tuned less frozen, paired by instance, with its 95 % interval; no interval for one instance."""
    instances: int
    """How many there are."""
    share: float
    """Different programs until the tuned run was as good as the frozen one at its end, over those that this one needed;
    infinite if it never was."""


def read_control(run: RunData) -> RunData | None:
    """The run's frozen control as far as it has come, if it has one."""
    folder = Path(run.folder) / FOLDER
    return read_run(folder) if (folder / "run.sqlite").is_file() else None


def against_frozen(run: RunData, control: RunData) -> AgainstFrozen:
    """Compare a run with its control; both have scored programs."""
    tuned, frozen = run.census.bests, control.census.bests
    gains = [tuned[instance] - frozen[instance] for instance in sorted(tuned.keys() & frozen.keys())]
    goal = best_curve(control)[-1][1]
    return AgainstFrozen(
        tuned=best_curve(run)[-1][1],
        frozen=goal,
        difference=mean_interval(gains),
        instances=len(gains),
        share=_until(run, goal) / _until(control, goal),
    )


def _until(run: RunData, goal: float) -> float:
    return next((float(number) for number, score in best_curve(run) if score >= goal), math.inf)


def in_words(found: AgainstFrozen) -> str:
    """What tuning did for the search, in a few sentences."""
    difference = found.difference
    text = f"Best score, tuned {found.tuned:.4f} against frozen {found.frozen:.4f}: difference {difference.mean:+.4f}"
    if math.isfinite(difference.half_width):
        text += f" ± {difference.half_width:.4f} (95 %, {found.instances} instances)"
        if difference.low > 0:
            text += ", tuning found better programs"
        elif difference.high < 0:
            text += ", tuning found worse programs"
        else:
            text += ", which chance explains"
    else:
        text += " (one instance: no interval)"
    if math.isinf(found.share):
        return f"{text}. The tuned run never reached the frozen run's last score."
    return (
        f"{text}. The tuned run reached the frozen run's last score with {found.share:.2f} of its programs."
    )
