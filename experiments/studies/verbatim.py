"""How much of what a policy finds it had been shown: `python -m atlas_gym.experiments.studies.verbatim TAUGHT RUN …`.

TAUGHT is the run whose phases taught the policy that the others search with. Of the distinct programs with which each
run improved a parent, counted are those whose edit TAUGHT had seen at the same site, written by its agent or by its
supporter: word for word, and but for the numbers in it.
"""

import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.experiments.studies.measuring import measure
from atlas_gym.trainers.data.measures import is_improving
from atlas_gym.trainers.store.store import RunStore

MARGIN = 0.002

Edit = tuple[str, str]
"""The label of an edit site, and what was written there."""


def word_for_word(record: CandidateRecord) -> Edit:
    """The edit as it was written."""
    return record.hole, record.completion.strip()


def but_for_numbers(record: CandidateRecord) -> Edit:
    """The edit with every number alike."""
    return record.hole, re.sub(r"\d+\.?\d*", "#", record.completion.strip())


def seen(store: RunStore, form: Callable[[CandidateRecord], Edit]) -> set[Edit]:
    """Every edit of a run, candidates and lessons."""
    return {
        form(record) for record in (*store.candidates("WHERE c.round > 0"), *store.lessons(store.taught()))
    }


def found(store: RunStore) -> list[CandidateRecord]:
    """Of each distinct program with which the agent improved a parent, the first candidate."""
    records = store.candidates("WHERE c.round > 0 AND c.origin = 'agent'")
    improving = [record for record in records if is_improving(record, MARGIN)]
    return list({record.program_key: record for record in reversed(improving)}.values())


def _rows(options: Namespace) -> Iterator[list[dict[str, Any]]]:
    with RunStore.open_readonly(options.taught) as store:
        known = {form: seen(store, form) for form in (word_for_word, but_for_numbers)}
    for run in options.runs:
        with RunStore.open_readonly(run) as store:
            own = found(store)
        counts = {form.__name__: sum(form(r) in edits for r in own) for form, edits in known.items()}
        yield [{"run": run.name, "improving": len(own), **counts}]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the counts of each run."""
    taught = {"taught": {"type": Path, "help": "folder of the run that taught the policy of the others"}}
    measure("verbatim", __doc__, _rows, arguments, taught)


if __name__ == "__main__":
    main()
