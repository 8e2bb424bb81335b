"""What a person sees while a run goes on: one line a round, a status line with the time left.

On a terminal the status line is live (rich); in a log file each round is a plain line, so that a run that was
left alone for the night reads well in the morning.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from trainers.loop.measure import learned
from trainers.loop.observer import Observer

SHARES = ("valid", "new", "distinct")
"""Shares of a round's samples, in the words of the glossary."""


def make_console() -> Console:
    """The terminal, or the file that stands for it."""
    console = Console()
    # A file has no width; 80 would break every line.
    return console if console.is_terminal else Console(width=120)


class LiveView(Observer):
    """Prints a run as it goes on.

    Args:
        rounds: rounds of the whole run.
        phases: fine-tuning phases that are planned.
        groups: units per round.
        console: where to print.
    """

    def __init__(self, rounds: int, phases: int, groups: int, console: Console | None = None):
        self.console = console or Console()
        self._rounds, self._phases, self._groups = rounds, phases, groups
        self._units: list[Mapping[str, Any]] = []
        self._phases_done = 0
        self._consulted = self._skipped = 0
        self._clock = _Clock()
        self._progress = Progress(
            TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"), console=self.console, transient=True,
            disable=not self.console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("exploring", total=rounds, left="")

    def __enter__(self) -> "LiveView":
        self._progress.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._progress.stop()

    def stage(self, text: str) -> None:
        """See `Observer`."""
        self._progress.update(self._task, description=escape(text))
        self.console.print(text, style="dim", markup=False)

    def seeded(self, score: float, round_: int, rounds: int) -> None:
        """See `Observer`."""
        self.console.print(f"Starting program: score {score:.4f} on the training seeds.")
        if round_:
            self.console.print(
                f"Continuing after round {round_} of {rounds}; what is stored is read, not redone."
            )

    def unit(self, summary: Mapping[str, Any], best: float) -> None:
        """See `Observer`."""
        self._units.append(summary)
        if len(self._units) < self._groups:
            return
        units, self._units = self._units, []
        total = {key: sum(u[key] for u in units) for key in (*SHARES, "samples", "improving")}
        spoiled = sum(u.get("spoiled", 0) for u in units)
        shares = "  ".join(f"{key} {total[key] / max(1, total['samples']):4.0%}" for key in SHARES)
        self._clock.round_done(sum(u["generation_s"] for u in units))
        self._progress.update(self._task, completed=summary["round"], left=self._left(summary["round"]))
        self.console.print(
            f"round {summary['round']:3d}/{self._rounds}  best {best:.4f}  {shares}  "
            f"improving {total['improving']:2d}  {self._left(summary['round'])}"
            + (f"  not evaluated {spoiled} (machine)" if spoiled else "")
        )
        self._say_skipped(units)

    def _say_skipped(self, units: Sequence[Mapping[str, Any]]) -> None:
        """A supporter that does not answer is told of, with what it came to in the whole run."""
        reasons = [reason for unit in units for reason in unit.get("skipped", ())]
        self._consulted += sum(unit.get("consulted", 0) for unit in units)
        self._skipped += len(reasons)
        if reasons:
            self.console.print(
                f"  exploration supporter: {self._consulted - self._skipped} of {self._consulted} answered, "
                f"last error: {reasons[-1]}", style="yellow", markup=False,
            )  # fmt: skip

    def probe(self, phase: int, moment: str, result: Mapping[str, Any]) -> None:
        """See `Observer`."""
        shares = "  ".join(
            f"{name} {result[name]['value']:.2f}±{result[name]['error']:.2f}"
            for name in ("valid", "new", "improving")
        )
        where = f"{moment:6s} phase {phase}" if moment in ("before", "after") else f"unseen task, {moment:5s}"
        errors = "± standard error over prompts"
        self.console.print(f"  probe {where}: {shares}  distinct {result['distinct_share']:.2f}  ({errors})")

    def measured(self, phase: int, probes: Mapping[tuple[int, str], Mapping[str, Any]]) -> None:
        """See `Observer`."""
        changes = (
            f"{name} {found.base:.3f} → {found.tuned:.3f}"
            for name, found in learned(probes).get(phase, {}).items()
        )
        self.console.print(
            f"  base model → phase {phase}: {', '.join(changes)}" if phase else "  base model: done"
        )

    def phase(self, result: Mapping[str, Any]) -> None:
        """See `Observer`."""
        self._phases_done += 1
        if result.get("skipped"):
            self.console.print(f"  phase {result['phase']} skipped: {result['skipped']}", markup=False)
            return
        self._clock.phase_done(sum(result["seconds"].values()))
        colour = "green" if result["promoted"] else "yellow"
        decision = result["decision"]
        reason = decision["reason"] if decision else f"reference weight {result['weight']:.2g} by its rule"
        taught = result.get("chosen_from", {}).get("supporter", 0)
        said = f", {taught} of {result['pairs']} pairs taught by the supporter" if taught else ""
        self.console.print(f"  phase {result['phase']}: [{colour}]{escape(reason)}[/{colour}]{said}")
        for warning in result.get("warnings", ()):
            self.console.print(f"  {warning}", style="bold red", markup=False)

    def _left(self, round_: int) -> str:
        seconds = self._clock.left(self._rounds - round_, self._phases - self._phases_done)
        if seconds is None:
            return ""
        return f"about {seconds / 60:.0f} min left" if seconds >= 60 else "under 1 min left"


class _Clock:
    """Time left, from what rounds and phases have taken so far (a first phase is taken to last 90 s)."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._round_s: deque[float] = deque(maxlen=5)
        self._phase_s: list[float] = []

    def round_done(self, generation_s: float) -> None:
        now = time.monotonic()
        if now - self._last > 0.5 * generation_s:  # replayed rounds take no time and say nothing
            self._round_s.append(now - self._last)
        self._last = now

    def phase_done(self, seconds: float) -> None:
        self._phase_s.append(seconds)
        self._last = time.monotonic()

    def left(self, rounds: int, phases: int) -> float | None:
        if not self._round_s:
            return None
        return rounds * fmean(self._round_s) + max(0, phases) * fmean(self._phase_s or [90.0])
