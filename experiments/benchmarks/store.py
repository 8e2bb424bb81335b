"""A run store of a million candidates: how fast it takes them, and what a resumed run and a report cost.

    python -m experiments.benchmarks.store --candidates 10000 100000 1000000

The candidates are made up (see `synthetic`). Of every size it measures, each in a process of its own:

* insert: seconds inside the store for all units, one durable transaction each, as a run writes them;
* resume: opening the store and folding every record into islands, cache and tallies, by the very code that a
  resumed run goes through (`Explorer`), up to the point where the next prompt can be planned;
* pairs: choosing a phase's preference pairs (the data are cumulative);
* report: writing the whole report page, without the environment's pictures.

Time is the process's own (on a machine that does other things, too, the clock says little) and the clock's. Peak
memory is the process's resident size; "nothing" is a process that only imports. The exponent compares each
size with the one before it: 1 is linear; n log n shows as 1.11 from 10^4 to 10^5 and 1.08 from there to 10^6.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from rich.console import Console
from rich.table import Table

from agents.engines.engine import Generator
from agents.research_agent import ResearchAgent
from agents.supporters import SupporterCall
from atlas_gym import make_task
from atlas_gym.evaluation import Evaluation, Pool, Task
from atlas_gym.seeding import stream
from experiments.benchmarks.synthetic import LAYOUT, SyntheticRun, fill, write_config
from experiments.report.write import write_report
from trainers.data.evaluations import ProgramCache
from trainers.data.pair_pool import pair_pool
from trainers.data.pairs import PairSettings, build_pairs
from trainers.loop.exploration import Explorer
from trainers.store.store import RunStore

Figures = dict[str, float]


class NoPool(Pool):
    """Nothing is evaluated: everything is stored."""

    def _queue(self, program: str, task: Task, future: "Future[Evaluation]") -> None:
        """Never called by a run that only reads."""
        raise RuntimeError("a stored candidate was evaluated again")

    def close(self) -> None:
        """Nothing to close."""


class Stopwatch:
    """Adds up the time inside its blocks: by the clock, and of the processor."""

    def __init__(self) -> None:
        self.times = {"seconds": 0.0, "cpu_s": 0.0}

    def __enter__(self) -> None:
        self._since = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        clock, cpu = self._since
        self.times["seconds"] += time.perf_counter() - clock
        self.times["cpu_s"] += time.process_time() - cpu


def insert(folder: Path, candidates: int) -> Figures:
    """Fill an empty store."""
    run, watch = SyntheticRun(candidates), Stopwatch()
    write_config(folder, run)
    with RunStore(folder) as store:
        count = fill(store, run, watch)
    size = sum(path.stat().st_size for path in folder.glob("run.sqlite*"))
    return {**watch.times, "candidates": count, "bytes": size}


def resume(folder: Path, candidates: int) -> Figures:
    """Fold the whole run, and plan the next round to see that it is there."""

    def no_generator() -> Generator:
        raise RuntimeError("a stored round was generated again")

    spec, watch = make_task("ATLAS-Bandit-v0"), Stopwatch()
    with watch, RunStore(folder) as store:
        for call in store.supporter_calls():
            SupporterCall.from_dict(call)
        agent = ResearchAgent(spec, seed=0)
        explorer = Explorer(LAYOUT, agent, no_generator, ProgramCache(NoPool(), None, store), store)  # type: ignore[arg-type]
        explorer.seed(spec.starts["named"])
        rounds = store.last_round()
        for _ in explorer.rounds(1, rounds):
            pass
        agent.plan(rounds + 1, range(LAYOUT.islands), LAYOUT.samples)
        clusters = [len(island.clusters.leaders) for island in agent.islands.values()]
    return {**watch.times, "clusters": max(clusters)}


def pairs(folder: Path, candidates: int) -> Figures:
    """Choose one phase's pairs from everything, as `trainers.loop.fine_tuning` does."""
    watch = Stopwatch()
    with watch, RunStore.open_readonly(folder) as store:
        settings = PairSettings()
        completions = pair_pool(store, store.last_round(), settings.pool, stream(0, "pair pool", 1))
        found = build_pairs(completions, settings, stream(0, "pairs", 1))
    return {**watch.times, "pairs": len(found)}


def report(folder: Path, candidates: int) -> Figures:
    """Write the page."""
    watch = Stopwatch()
    with watch:
        page, *_ = write_report([folder], folder / "report.html", pictures=False)
    return {**watch.times, "bytes": page.stat().st_size}


def nothing(folder: Path, candidates: int) -> Figures:
    """Only what importing takes."""
    return {"seconds": 0.0, "cpu_s": 0.0}


STAGES: dict[str, Callable[[Path, int], Figures]] = {
    "nothing": nothing, "insert": insert, "resume": resume, "pairs": pairs, "report": report,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Print the table; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m experiments.benchmarks.store", description=__doc__)
    parser.add_argument(
        "--candidates", type=int, nargs="+", default=[10_000, 100_000], help="sizes, ascending"
    )
    parser.add_argument(
        "--folder", type=Path, help="keep the stores here; default: a folder that is thrown away"
    )
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.stage:
        figures = STAGES[options.stage](options.folder, options.candidates[0])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(figures | {"peak_mb": peak}))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        results = {n: _measure(folder / str(n), n) for n in options.candidates}
    print_tables(results)
    return 0


def _measure(folder: Path, candidates: int) -> dict[str, Figures]:
    found: dict[str, Figures] = {}
    for stage in STAGES:
        command = [sys.executable, "-m", "experiments.benchmarks.store", "--stage", stage]
        command += ["--folder", str(folder), "--candidates", str(candidates)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found[stage] = json.loads(done.stdout.splitlines()[-1])
        print(f"{candidates} {stage}: {found[stage]}", file=sys.stderr, flush=True)
    return found


def print_tables(results: dict[int, dict[str, Figures]]) -> None:
    """Time, memory and exponents by size."""
    console = Console(width=110)
    stages = [stage for stage in STAGES if stage != "nothing"]
    cpu = Table("candidates", *(f"{stage}, CPU s" for stage in stages), "file, MB", "page, MB")
    clock = Table("candidates", *(f"{stage}, s" for stage in stages), "stored per second")
    memory = Table("candidates", *(f"{stage}, peak MB" for stage in STAGES))
    for n, r in results.items():
        size = f"{r['insert']['bytes'] / 1e6:,.0f}", f"{r['report']['bytes'] / 1e6:.1f}"
        cpu.add_row(f"{n:,}", *(_growing(results, n, stage) for stage in stages), *size)
        rate = f"{r['insert']['candidates'] / r['insert']['seconds']:,.0f}"
        clock.add_row(f"{n:,}", *(f"{r[stage]['seconds']:,.1f}" for stage in stages), rate)
        memory.add_row(f"{n:,}", *(f"{r[stage]['peak_mb']:,.0f}" for stage in STAGES))
    console.print(cpu, clock, memory)
    console.print(
        f"In brackets: the exponent of growth since the row above. Load average {os.getloadavg()[0]:.1f}."
    )


def _growing(results: dict[int, dict[str, Figures]], n: int, stage: str) -> str:
    smaller = [m for m in results if m < n]
    text = f"{results[n][stage]['cpu_s']:.1f}"
    if not smaller:
        return text
    before = max(smaller)
    growth = results[n][stage]["cpu_s"] / results[before][stage]["cpu_s"]
    return f"{text} ({math.log(growth) / math.log(n / before):.2f})"


if __name__ == "__main__":
    sys.exit(main())
