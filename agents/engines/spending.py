"""What a run has spent on models behind an API: a ledger in the run's folder, one line for each request.

A line is written when the reply arrives, before anything is made of it. So what was paid for counts even where the
process is killed before its samples are stored, and a resumed run begins with what is really left.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.engines.engine import BackendError
from agents.engines.settings import ChatSettings

_MILLION = 1_000_000


Spending = Mapping[str, float]
"""What one model has cost: `requests` that may have been charged for, `prompt_tokens` read, `completion_tokens`
written, reasoning included, and `money` in the currency of the prices that were set."""

_NOTHING: Spending = {"requests": 0, "prompt_tokens": 0, "completion_tokens": 0, "money": 0.0}


class Ledger:
    """The spending on one model, and its budget. Several threads may use it.

    Requests under way when a budget is spent are still answered and paid for: it can be overshot by at most
    `concurrency` of them.
    """

    def __init__(self, path: Path, settings: ChatSettings) -> None:
        self._path = path
        self._settings = settings
        self._lock = threading.Lock()
        self._model = f"{settings.model} at {settings.base_url}"
        self.spent = _read(path).get(self._model, _NOTHING)
        """What has been spent so far, by earlier processes of the run, too."""
        path.parent.mkdir(parents=True, exist_ok=True)

    def require_budget(self) -> None:
        """Raise :class:`BackendError` if nothing is left."""
        spent, settings = self.spent, self._settings
        tokens = spent["prompt_tokens"] + spent["completion_tokens"]
        for name, limit, used, unit in (
            ("budget_tokens", settings.budget_tokens, tokens, "tokens"),
            ("budget_money", settings.budget_money, spent["money"], "(money)"),
        ):
            if limit and used >= limit:
                raise BackendError(
                    f"the budget of {limit:.12g} {unit} for {self._model} is spent ({used:.12g} used); set a larger "
                    f"chat.{name} and resume the run"
                )

    def enter(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Account for one request."""
        prices = self._settings
        money = (prompt_tokens * prices.prompt_price + completion_tokens * prices.completion_price) / _MILLION
        line = json.dumps([self._model, prompt_tokens, completion_tokens, money])
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            # The newline comes first: a line that a killed process left unfinished spoils only itself.
            file.write(f"\n{line}")
            file.flush()
            os.fsync(file.fileno())
            self.spent = _plus(self.spent, prompt_tokens, completion_tokens, money)


def total(path: Path) -> dict[str, dict[str, Any]]:
    """Plain values for a run's summary, by model; empty if no model behind an API wrote."""
    return {model: dict(spent) for model, spent in sorted(_read(path).items())}


def _plus(spent: Spending, prompt: int, completion: int, money: float) -> Spending:
    """With one more request."""
    further = {"requests": 1, "prompt_tokens": prompt, "completion_tokens": completion, "money": money}
    return {name: spent[name] + more for name, more in further.items()}


def _read(path: Path) -> dict[str, Spending]:
    found: dict[str, Spending] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in filter(str.strip, lines):
        try:
            model, prompt_tokens, completion_tokens, money = json.loads(line)
        except ValueError:  # cut short when the process was killed
            continue
        spent = found.get(model, _NOTHING)
        found[model] = _plus(spent, int(prompt_tokens), int(completion_tokens), float(money))
    return found
