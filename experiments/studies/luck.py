"""How much of what a run takes for improvement is luck of the draw: `python -m experiments.studies.luck RUN …`.

A run scores a candidate and its parent on one draw of their task. Here the edits that improve there are scored again,
with their parents, on three draws that chose nobody; one is borne out if it improves by more than the margin on
average. Counted are the edits that the agent wrote, and the pairs of each phase that choose an improving edit.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from agents.population.candidate import CandidateRecord
from atlas_gym.arguments import Parser
from atlas_gym.evaluation import EvaluatorPool, Pool
from experiments.report.table_formats import write_csv
from trainers.data.measures import is_improving
from trainers.data.redraws import Redraws
from trainers.loop.config import load_config
from trainers.loop.schedule import TaskSchedule
from trainers.store.plain import SettingsError
from trainers.store.store import RunStore, StoreError

DRAWS = 3


def of_run(run: Path, pool: Pool) -> Iterator[dict[str, Any]]:
    """A row for the run's candidates, and one for each of its phases.

    Raises:
        SettingsError: there is no run.
        StoreError: its store cannot be read.
    """
    config = load_config(run / "config.yaml", {})
    margin = config.pairs.margin
    with RunStore.open_readonly(run) as store:
        redraws = Redraws(pool, TaskSchedule(config).redrawn, store.candidate, DRAWS, margin)

        def row(what: str, chosen: Iterable[CandidateRecord]) -> dict[str, Any]:
            improving = [record for record in chosen if is_improving(record, margin)]
            held = sum(is_improving(record, margin) for record in redraws.corrected(improving))
            share = held / len(improving) if improving else float("nan")
            return {
                "run": run.name,
                "what": what,
                "improving": len(improving),
                "borne_out": held,
                "share": share,
            }

        yield row("agent's edits", store.candidates("WHERE origin = ?", ("agent",)))
        for phase in store.phases():
            pairs = store.phase_pairs(phase["phase"])
            yield row(f"pairs of phase {phase['phase']}", (store.candidate(p["chosen_id"]) for p in pairs))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how many improving edits of each run are borne out."""
    parser = Parser(prog="python -m experiments.studies.luck", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--output", type=Path, help="also written here, as CSV")
    options = parser.parse_args(arguments)
    try:
        with EvaluatorPool(1) as pool:
            data = pd.DataFrame([row for run in options.runs for row in of_run(run, pool)])
    except (SettingsError, StoreError) as error:
        raise SystemExit(f"Error: {error}") from error
    print(data.round(2).to_string(index=False))
    if options.output:
        write_csv(data, options.output)


if __name__ == "__main__":
    main()
