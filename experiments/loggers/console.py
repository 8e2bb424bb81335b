"""What a person sees while a run goes on: one line a round, a status line with the time left.

On a terminal the status line is live (rich); in a log file each round is a plain line, so that a run that was
left alone for the night reads well in the morning.
"""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from atlas_gym.trainers.loop.exam import learned
from atlas_gym.trainers.loop.observer import Observer

SHARES = ("valid", "new", "distinct")
"""Of a round's samples."""


class LiveView(Observer):
    """Prints a run as it goes on; `rounds` and `phases` are those of the whole run."""

    def __init__(self, rounds: int, phases: int, console: Console):
        self.console = console
        self._rounds, self._phases = rounds, phases
        self._since, self._untimed = time.monotonic(), phases > 0
        self._consulted = self._skipped = self._stored = 0
        self._progress = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=self.console, transient=True, disable=not self.console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("exploring", total=rounds)

    def __enter__(self) -> "LiveView":
        self._progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._progress.stop()

    def stage(self, text: str) -> None:
        self._progress.update(self._task, description=escape(text))
        self.console.print(text, style="dim", markup=False)

    def seeded(self, score: float, round_: int, rounds: int) -> None:
        self.console.print(f"Starting program: score {score:.4f} on the training seeds.")
        self._stored = round_
        self._since = time.monotonic()
        if round_:
            text = f"Continuing after round {round_} of {rounds}; what is stored is read, not redone."
            self.console.print(text)

    def round(self, summary: Mapping[str, Any], best: float) -> None:
        shares = "  ".join(f"{key} {summary[key] / max(1, summary['samples']):4.0%}" for key in SHARES)
        self._progress.update(self._task, completed=summary["round"])
        lost = summary.get("lost", 0)
        self.console.print(
            f"round {summary['round']:3d}/{self._rounds}  best {best:.4f}  {shares}  "
            f"improving {summary['improving']:2d}  of {summary.get('drawn', summary['samples'])} drawn  "
            f"{self._left(summary['round'])}" + (f"  not evaluated {lost} (machine)" if lost else "")
        )
        reasons = summary.get("skipped", ())
        self._consulted += summary.get("consulted", 0)
        self._skipped += len(reasons)
        if reasons:
            self.console.print(
                f"  exploration supporter: {self._consulted - self._skipped} of {self._consulted} answered, "
                f"last error: {reasons[-1]}", style="yellow", markup=False,
            )  # fmt: skip

    def exam(self, phase: int, exams: Mapping[int, Mapping[str, Any]]) -> None:
        measures = learned(exams).get(phase, {}).items()
        changes = ", ".join(f"{name} {found.base:.3f} → {found.tuned:.3f}" for name, found in measures)
        self.console.print(f"  base model → phase {phase}: {changes}" if phase else "  base model: done")

    def phase(self, result: Mapping[str, Any]) -> None:
        self._phases -= 1
        if result["round"] >= self._stored:  # not read out of the store
            self._untimed = False
        if result.get("skipped"):
            self.console.print(f"  phase {result['phase']} skipped: {result['skipped']}", markup=False)
            return
        colour = "green" if result["promoted"] else "yellow"
        decision = result["decision"]
        moved = "moves" if result["promoted"] else "stays"
        reason = decision["reason"] if decision else f"the reference {moved}, by its rule"
        taught = result.get("chosen_from", {}).get("supporter", 0)
        said = f", {taught} of {result['pairs']} pairs taught by the supporter" if taught else ""
        self.console.print(f"  phase {result['phase']}: [{colour}]{escape(reason)}[/{colour}]{said}")
        for warning in result.get("warnings", ()):
            self.console.print(f"  {warning}", style="bold red", markup=False)

    def _left(self, round_: int) -> str:
        """The time left, by the mean of a round and its share of the phases; unknown before the first of them."""
        done = round_ - self._stored
        if done < 1 or (self._phases > 0 and self._untimed):
            return ""
        minutes = (time.monotonic() - self._since) / done * (self._rounds - round_) / 60
        return f"about {minutes:.0f} min left" if minutes >= 1 else "under 1 min left"
