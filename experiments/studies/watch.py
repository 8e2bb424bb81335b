"""A sweep's run as the sweep sees it: its metric, read from the run's own store while it goes on."""

import math
from pathlib import Path

from experiments.loggers.metrics import RoundHistory, final_row
from trainers.store.plain import read_mapping
from trainers.store.store import RunStore, StoreError


class RunWatch:
    """Reads one run's metric.

    Args:
        folder: the run's folder; need not exist yet.
        metric: one of the names in `experiments.loggers.metrics`.
        maximize: whether larger is better.
    """

    def __init__(self, folder: Path, metric: str, maximize: bool):
        self.folder = folder
        self._metric = metric
        self._maximize = maximize
        self._rounds: RoundHistory | None = None

    def read(self) -> tuple[tuple[float, ...], float | None]:
        """The metric round by round, and what it comes to: its value in the final summary if it has one, else the
        best so far; None if there is none yet."""
        try:
            with RunStore.open_readonly(self.folder) as store:
                rows = self._history(store)
                final = final_row(store).get(self._metric)
        except StoreError:
            return (), None
        history = tuple(row[self._metric] for row in rows if _is_number(row.get(self._metric)))
        best = (max if self._maximize else min)(history, default=None)
        return history, final if _is_number(final) else best

    def _history(self, store: RunStore) -> list[dict]:
        config = self.folder / "config.yaml"
        if self._rounds is None:
            if not config.is_file():
                return []
            settings = read_mapping(config, "the configuration")
            self._rounds = RoundHistory(settings.get("exploration", {}).get("groups", 1))
        return self._rounds.extend(store)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
