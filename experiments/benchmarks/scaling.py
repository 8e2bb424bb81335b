"""How throughput grows with workers and islands, where a run's time goes, and what a million evaluations a day need.

    python -m experiments.benchmarks.scaling workers --most 3       # evaluations/s of the local pool
    python -m experiments.benchmarks.scaling islands                # seconds a round, real model
    python -m experiments.benchmarks.scaling runs runs/*            # shares of time, cost per improvement

Tokens per second by batch, engine and adapter: `python -m experiments.benchmarks.generation`. Ray against the pool:
`python -m experiments.benchmarks.pools`. What `runs` prints was measured by the runs themselves as they went on: it
costs nothing, and its seconds are those of the machine and the load that the runs had.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from atlas_gym import make_task
from atlas_gym.evaluation import EvaluatorPool
from trainers.store.store import RunStore, StoreError

CONSOLE = Console(width=120)
A_DAY = 1_000_000
"""Candidates a day that the plan is for."""


@dataclass(frozen=True)
class Spent:
    """What some runs sampled and spent; seconds of the clock."""

    samples: int = 0
    """Candidates."""
    new: int = 0
    """Valid programs that are no copy of their parent."""
    distinct: int = 0
    """Different programs among them."""
    improving: int = 0
    """Programs that beat their parent by the smallest gain that counts."""
    tokens: int = 0
    """Tokens generated."""
    generation_s: float = 0.0
    """Seconds in the model."""
    waiting_s: float = 0.0
    """Seconds for which nothing was generated because evaluations were not done."""
    tuning_s: float = 0.0
    """Seconds in fine-tuning phases."""
    phases: int = 0
    """Phases that were not skipped."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.generation_s + self.waiting_s + self.tuning_s


def spent(folder: Path) -> Spent:
    """What one run's store says."""
    with RunStore.open_readonly(folder) as store:
        units = [unit for unit in store.unit_summaries() if unit.get("samples")]
        phases = [phase for phase in store.phases() if not phase.get("skipped")]
    total = {
        key: sum(unit.get(key) or 0 for unit in units)
        for key in ("samples", "new", "distinct", "improving", "tokens", "generation_s", "evaluation_wait_s")
    }
    tuning = sum(sum(phase.get("seconds", {}).values()) for phase in phases)
    return Spent(*total.values(), tuning, len(phases))


def runs(folders: Sequence[Path]) -> None:
    """A row for every run and one for all of them."""
    table = Table(
        "run", "candi-\ndates", "new", "improv-\ning", "tokens\neach", "gene-\nrating", "wait-\ning", "tuning",
        "s per\ncandidate", "per improvement:\ncandidates", "seconds", "tokens",
    )  # fmt: skip
    total = Spent()
    for folder in folders:
        found = spent(folder)
        if found.samples:
            total += found
            table.add_row(folder.name, *_cells(found))
    if total.samples:
        table.add_row("together", *_cells(total), style="bold")
    CONSOLE.print(table)
    CONSOLE.print(f"{A_DAY:,} candidates a day are {A_DAY / 86400:.1f} a second.")


def _cells(s: Spent) -> list[str]:
    def each(value: float, form: str = ",.0f") -> str:
        return format(value / s.improving, form) if s.improving else "–"

    shares = (f"{part / max(s.seconds, 1e-9):.0%}" for part in (s.generation_s, s.waiting_s, s.tuning_s))
    return [
        f"{s.samples:,}", f"{s.new / s.samples:.0%}", str(s.improving), f"{s.tokens / s.samples:.1f}", *shares,
        f"{s.seconds / s.samples:.2f}", each(s.samples), each(s.seconds, ",.1f"), each(s.tokens),
    ]  # fmt: skip


def workers(most: int, batch: int, repeats: int) -> None:
    """Evaluations per second of the paper's program on pools of 1 to `most` workers, in turns."""
    program, task = make_task("ATLAS-Bandit-v0").starts["named"], make_task("ATLAS-Bandit-v0", seed=0)
    programs = [f"{program}\n# {i}" for i in range(batch)]
    rates: dict[int, list[float]] = {count: [] for count in range(1, most + 1)}
    for _ in range(repeats):
        for count, found in rates.items():
            with EvaluatorPool(count) as pool:
                pool.map(programs[:count], task)
                started = time.perf_counter()
                pool.map(programs, task)
                found.append(batch / (time.perf_counter() - started))
    table = Table("workers", "evaluations/s, median (range)", "relative to one")
    for count, found in rates.items():
        ratio = median(a / b for a, b in zip(found, rates[1], strict=True))
        table.add_row(
            str(count), f"{median(found):.1f} ({min(found):.1f} to {max(found):.1f})", f"{ratio:.2f}"
        )
    CONSOLE.print(table)
    _say_load()


def islands(counts: Sequence[int], rounds: int) -> None:
    """Seconds a round with the embedded model, without tuning."""
    from trainers.loop.atlas import AtlasRun
    from trainers.loop.config import load_config

    table = Table("islands", "candidates a round", "s a round", "generating", "waiting", "candidates/s")
    for count in counts:
        asked = {
            "method": "search", "rounds": rounds, "tracking": "off", "held_out_seeds": 1, "torch_threads": 1,
            "exploration": {"islands": count, "groups": min(2, count)},
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            with RunStore(Path(folder)) as store, AtlasRun(load_config(None, asked), store) as run:
                run.run()
            found = spent(Path(folder))
        table.add_row(
            str(count), f"{found.samples / rounds:.0f}", f"{found.seconds / rounds:.2f}",
            f"{found.generation_s / rounds:.2f}", f"{found.waiting_s / rounds:.2f}",
            f"{found.samples / found.seconds:.1f}",
        )  # fmt: skip
    CONSOLE.print(table)
    _say_load()


def _say_load() -> None:
    CONSOLE.print(f"{os.cpu_count()} cores; load average {os.getloadavg()[0]:.1f}")


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for; returns 0."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.benchmarks.scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    of_workers = kinds.add_parser("workers")
    of_workers.add_argument("--most", type=int, default=3)
    of_workers.add_argument("--batch", type=int, default=24)
    of_workers.add_argument("--repeats", type=int, default=3)
    of_islands = kinds.add_parser("islands")
    of_islands.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 6])
    of_islands.add_argument("--rounds", type=int, default=2)
    of_runs = kinds.add_parser("runs")
    of_runs.add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    if options.kind == "workers":
        workers(options.most, options.batch, options.repeats)
    elif options.kind == "islands":
        islands(options.counts, options.rounds)
    else:
        try:
            runs(options.folders)
        except StoreError as error:
            raise SystemExit(f"Error: {error}") from error
    return 0


if __name__ == "__main__":
    sys.exit(main())
