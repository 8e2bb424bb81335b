"""How widely a run has searched: each island's best program and the different programs found, round by
round."""

from typing import Any

from experiments.report.data import RunData


def coverage(run: RunData) -> dict[str, Any]:
    """Per island and round: best score so far and different valid programs so far.

    Returns:
        `rounds` (the abscissa), `best` and `programs` (islands × rounds).
    """
    islands = sorted({record.island for record in run.candidates})
    rounds = list(range(run.rounds + 1)) if run.candidates else []
    best: dict[int, float | None] = dict.fromkeys(islands)
    keys: dict[int, set[str]] = {island: set() for island in islands}
    table: dict[str, list[list[Any]]] = {name: [[] for _ in islands] for name in ("best", "programs")}
    records = iter(run.candidates)
    record = next(records, None)
    for round_ in rounds:
        while record is not None and record.round == round_:
            if record.passed:
                known = best[record.island]
                best[record.island] = record.score if known is None else max(known, record.score or known)
                keys[record.island].add(record.program_key or "")
            record = next(records, None)
        for row, island in enumerate(islands):
            table["best"][row].append(best[island])
            table["programs"][row].append(len(keys[island]))
    return {"islands": islands, "rounds": rounds, **table}
