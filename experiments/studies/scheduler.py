"""Runs a sweep: some runs at a time, each in a process of its own, until the search or the cap ends it."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from experiments.studies.command import environment, expand
from experiments.studies.processes import RunProcess, wait_until_free
from experiments.studies.search import Trial, next_parameters
from experiments.studies.state import SweepRun, SweepStore
from experiments.studies.sweep_file import Sweep
from experiments.studies.watch import RunWatch

HOPELESS = 3
"""After so many failures and no success the fault is in the command, not in a configuration."""


class SweepRunner:
    """One sweep, begun or continued.

    Args:
        sweep: the sweep.
        folder: its folder; runs go below it.
        seed: of the search.
        workers: runs at a time.
        tell: called with one line whenever something happens.
        poll_s: seconds between two looks at the runs.

    Raises:
        SweepError: the folder belongs to another sweep or another process.
    """

    def __init__(
        self,
        sweep: Sweep,
        folder: Path,
        *,
        seed: int,
        workers: int,
        tell: Callable[[str], None],
        poll_s: float = 1.0,
    ):
        self._sweep = sweep
        self._folder = folder
        self._seed = seed
        self._workers = workers
        self._tell = tell
        self._poll_s = poll_s
        self._store = SweepStore(folder, sweep.text, seed)
        self._runs = {run.number: run for run in self._store.runs()}
        self._active: dict[int, tuple[RunProcess, RunWatch]] = {}

    def run(self) -> list[SweepRun]:
        """Go on until the sweep is complete; returns every run. Interrupted, it stops its runs first."""
        try:
            interrupted = self._interrupted()
            while self._fill(interrupted) or self._active:
                time.sleep(self._poll_s)
                for number in list(self._active):
                    self._look(number)
            return self.runs()
        finally:
            for process, _ in self._active.values():
                process.ask_to_stop()
            for process, _ in self._active.values():
                process.wait()
            self._store.close()

    def runs(self) -> list[SweepRun]:
        """Every run begun so far, in order."""
        return [self._runs[number] for number in sorted(self._runs)]

    def run_folder(self, number: int) -> Path:
        """Where a run lies."""
        return self._folder / self._run_id(number)

    def _run_id(self, number: int) -> str:
        return f"{self._sweep.name}-{number:03d}"

    def _interrupted(self) -> list[SweepRun]:
        """The runs that were under way when the sweep was killed; those being cut short then are left as they are."""
        running = [run for run in self._runs.values() if run.state == "running"]
        for run in running:
            if run.note:
                self._put(replace(run, state="stopped"))
        return [run for run in running if not run.note]

    def _fill(self, interrupted: list[SweepRun]) -> bool:
        """Start runs while there is room, those first that a killed sweep left; False if there are none to come."""
        while len(self._active) < self._workers:
            run = interrupted.pop(0) if interrupted else self._next()
            if run is None:
                return False
            self._start(run)
        return True

    def _next(self) -> SweepRun | None:
        failed = [run for run in self._runs.values() if run.state == "failed"]
        if len(failed) >= HOPELESS and len(failed) == len(self._runs) - len(self._active):
            self._tell(f"{len(failed)} runs have failed and none has succeeded: the sweep ends here.")
            return None
        if self._sweep.run_cap is not None and len(self._runs) >= self._sweep.run_cap:
            return None
        parameters = next_parameters(self._sweep, [_trial(run) for run in self.runs()], self._seed)
        return None if parameters is None else SweepRun(len(self._runs), parameters, "running")

    def _start(self, run: SweepRun) -> None:
        run_id, folder = self._run_id(run.number), self.run_folder(run.number)
        self._put(run)
        wait_until_free(folder)
        parameter_file = self._folder / f"{run_id}.parameters.yaml"
        process = RunProcess(
            expand(self._sweep, run.parameters), environment(run_id, folder, run.parameters, parameter_file),
            self._folder / f"{run_id}.log",
        )  # fmt: skip
        self._active[run.number] = (process, RunWatch(folder, self._sweep.metric, self._sweep.maximize))
        self._tell(f"{run_id} starts: " + ", ".join(f"{k}={v}" for k, v in run.parameters.items()))

    def _look(self, number: int) -> None:
        process, watch = self._active[number]
        code = process.poll()  # before the metric is read: what is read after the end is all there is
        history, value = watch.read()
        run = replace(self._runs[number], history=history, value=value)
        if code is not None:
            del self._active[number]
            run = self._ended(run, code, process)
        elif not run.note and self._is_to_stop(run):
            run = replace(run, note=f"cut short after {len(history)} iterations")
            process.ask_to_stop()
        if run != self._runs[number]:
            self._put(run)

    def _ended(self, run: SweepRun, code: int, process: RunProcess) -> SweepRun:
        if code == 0:
            run = replace(run, state="finished", note="")
            if run.value is None:
                run = replace(run, state="failed", note=f"it ended without {self._sweep.metric}")
        elif run.note:
            run = replace(run, state="stopped")
        else:
            run = replace(run, state="failed", note=f"exit code {code}: {process.last_words()}")
        value = "" if run.value is None else f", {self._sweep.metric} = {run.value:.5g}"
        self._tell(f"{self._run_id(run.number)} {run.state}{value}{'; ' + run.note if run.note else ''}")
        return run

    def _is_to_stop(self, run: SweepRun) -> bool:
        rule = self._sweep.early_terminate
        others = [other.history for other in self._runs.values() if other.number != run.number]
        return rule is not None and rule.stops(run.history, others, self._sweep.maximize)

    def _put(self, run: SweepRun) -> None:
        self._store.put(run)
        self._runs[run.number] = run


def best_run(runs: list[SweepRun], maximize: bool) -> SweepRun | None:
    """The best run that was not cut short, the earliest of equals; None if there is none."""
    ended = [run for run in runs if run.state == "finished" and run.value is not None]
    sign = 1.0 if maximize else -1.0
    return max(ended, key=lambda run: (sign * (run.value or 0.0), -run.number), default=None)


def _trial(run: SweepRun) -> Trial:
    state = {"running": "running", "failed": "failed"}.get(run.state, "ended")
    return Trial(run.parameters, state, run.value)  # type: ignore[arg-type]
