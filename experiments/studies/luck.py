"""How much of what a run takes for improvement is luck of the draw.

    python -m atlas_gym.experiments.studies.luck RUN …

A run scores a candidate and its parent on one draw of their task. Here the edits that improve there are scored again,
with their parents, on three draws that chose nobody; one is borne out if it improves by more than the margin on
average. Counted are the edits that the agent wrote, and the pairs of each phase that choose an improving edit.
"""

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.evaluation import EvaluatorPool, Pool
from atlas_gym.experiments.studies.measuring import measure
from atlas_gym.trainers.data.measures import is_improving
from atlas_gym.trainers.data.redraws import Redraws
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.loop.schedule import TaskSchedule
from atlas_gym.trainers.store.store import RunStore

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
            counts = {"improving": len(improving), "borne_out": held}
            share = held / len(improving) if improving else float("nan")
            return {"run": run.name, "what": what, **counts, "share": share}

        yield row("agent's edits", store.candidates("WHERE origin = ?", ("agent",)))
        for phase in store.phases():
            pairs = store.phase_pairs(phase["phase"])
            yield row(f"pairs of phase {phase['phase']}", (store.candidate(p["chosen_id"]) for p in pairs))


def _rows(options: Namespace) -> Iterator[list[dict[str, Any]]]:
    with EvaluatorPool(1) as pool:
        for run in options.runs:
            yield list(of_run(run, pool))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how many improving edits of each run are borne out."""
    measure("luck", __doc__, _rows, arguments)


if __name__ == "__main__":
    main()
