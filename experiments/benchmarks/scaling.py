"""How evaluations scale with workers, and where finished runs spent their time.

    python -m atlas_gym.experiments.benchmarks.scaling workers --most 3          # evaluations/s of the local pool
    python -m atlas_gym.experiments.benchmarks.scaling workers --most 2 --ray    # and of a local Ray cluster of as many
    python -m atlas_gym.experiments.benchmarks.scaling runs runs/*               # shares of time, cost per improvement

Pools take turns, batch by batch, with one program and one task; ratios are formed within a turn before the median.
What `runs` prints was measured by the runs themselves: it costs nothing, and its seconds are those of the load they
had. Tokens per second by batch, engine and adapter: `python -m atlas_gym.experiments.benchmarks.generation`.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pandas as pd

from atlas_gym import make_task
from atlas_gym.arguments import Parser
from atlas_gym.evaluation import EvaluatorPool, Pool, Task
from atlas_gym.experiments.benchmarks.side_by_side import show, spread, take_turns
from atlas_gym.trainers.store.store import RunStore, StoreError

_SUMS = ("samples", "new", "improving", "tokens", "generation_s", "evaluation_wait_s")


def main(arguments: list[str] | None = None) -> None:
    """Measure what is asked for."""
    parser = Parser(
        prog="python -m atlas_gym.experiments.benchmarks.scaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    of_workers = kinds.add_parser("workers")
    of_workers.add_argument("--most", type=int, default=3, help="pools of 1 to so many workers")
    of_workers.add_argument("--batch", type=int, default=24, help="evaluations per turn and pool")
    of_workers.add_argument("--repeats", type=int, default=3, help="turns")
    of_workers.add_argument("--ray", action="store_true", help="a local Ray cluster too (atlas-gym[ray])")
    of_runs = kinds.add_parser("runs")
    of_runs.add_argument("folders", type=Path, nargs="+", metavar="RUN")
    options = parser.parse_args(arguments)
    if options.kind == "workers":
        rates = measure(pools(options.most, options.ray), options.batch, options.repeats)
        show("evaluations a second", throughput(rates))
        return
    try:
        show("where the time went", spent(options.folders))
    except StoreError as error:
        raise SystemExit(f"Error: {error}") from error


def pools(most: int, ray: bool) -> dict[str, Callable[[], Pool]]:
    """What is compared, by name; the first is what the others are relative to."""
    found: dict[str, Callable[[], Pool]] = {
        f"{count} workers": partial(EvaluatorPool, count) for count in range(1, most + 1)
    }
    if ray:
        from atlas_gym.evaluation.ray import RayEvaluatorPool

        found[f"Ray, {most} workers"] = lambda: RayEvaluatorPool(most)
    return found


def measure(made: dict[str, Callable[[], Pool]], batch: int, repeats: int) -> pd.DataFrame:
    """Evaluations per second of the paper's program, a column a pool and a row a turn."""
    program, task = make_task("ATLAS-Bandit-v0").starts["named"], make_task("ATLAS-Bandit-v0", seed=0)
    # A different comment makes a different text, so that no layer could serve one result twice.
    programs = [f"{program}\n# {i}" for i in range(batch)]
    with ExitStack() as stack:
        running = {name: stack.enter_context(make()) for name, make in made.items()}
        return take_turns(
            {name: partial(_rate, pool, programs, task) for name, pool in running.items()}, repeats
        )


def _rate(pool: Pool, programs: Sequence[str], task: Task) -> float:
    began = time.perf_counter()
    pool.map(programs, task)
    return len(programs) / (time.perf_counter() - began)


def throughput(rates: pd.DataFrame) -> pd.DataFrame:
    """Median and range of each pool, and its ratio to the first one's of the same turn."""
    ratios = rates.div(rates.iloc[:, 0], axis=0)
    return pd.DataFrame({
        "evaluations/s": rates.apply(spread, form=".1f"),
        "relative to the first": ratios.apply(spread),
    })  # fmt: skip


def spent(folders: Sequence[Path]) -> pd.DataFrame:
    """A row for every run that has explored, and one for all of them.

    Raises:
        StoreError: a folder holds no run.
    """
    # A list: runs of two studies may have the same name.
    found = [_sums(folder) for folder in folders]
    sums = pd.DataFrame(found, [folder.name for folder in folders])
    sums = sums[sums.samples > 0]
    if len(sums) > 1:
        sums.loc["together"] = sums.sum()
    seconds = sums[["generation_s", "evaluation_wait_s", "tuning_s"]].sum(axis=1)
    return pd.DataFrame({
        "candidates": sums.samples.map("{:,.0f}".format),
        "new": (sums.new / sums.samples).map("{:.0%}".format),
        "generating": (sums.generation_s / seconds).map("{:.0%}".format),
        "waiting": (sums.evaluation_wait_s / seconds).map("{:.0%}".format),
        "tuning": (sums.tuning_s / seconds).map("{:.0%}".format),
        "s per candidate": (seconds / sums.samples).map("{:.2f}".format),
        "improvements": sums.improving.map("{:.0f}".format),
        "each: candidates": (sums.samples / sums.improving).map("{:.0f}".format),
        "seconds": (seconds / sums.improving).map("{:.1f}".format),
        "tokens": (sums.tokens / sums.improving).map("{:.0f}".format),
    })  # fmt: skip


def _sums(folder: Path) -> dict[str, float]:
    with RunStore.open_readonly(folder) as store:
        units = [unit for unit in store.unit_summaries() if unit.get("samples")]
        tuning = sum(sum(phase.get("seconds", {}).values()) for phase in store.tuned_phases())
    return {key: float(sum(unit.get(key) or 0 for unit in units)) for key in _SUMS} | {"tuning_s": tuning}


if __name__ == "__main__":
    main()
