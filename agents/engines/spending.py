"""What a run has spent on models behind an API: a ledger in the run's folder, one line for each request.

A line is written when the reply arrives, before anything is made of it. So what was paid for counts even where the
process is killed before its samples are stored, and a resumed run begins with what is really left.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from atlas_gym.agents.engines.engine import EngineError
from atlas_gym.agents.engines.settings import ChatSettings

LEDGER = "spending.jsonl"
"""The ledger's name in the run's folder."""

_MILLION = 1_000_000


class Ledger:
    """The spending of a run, and its budgets, each of one model. All engines of a process have the same ledger; several
    threads may use it.

    Requests under way when a budget is spent are still answered and paid for: it can be overshot by at most
    `concurrency` of them for each engine.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._spent = total(path)

    def require_budget(self, settings: ChatSettings) -> None:
        """Raise :class:`EngineError` if nothing is left for this model."""
        model = _model(settings)
        spent = _of(self._spent, model)
        tokens = spent["prompt_tokens"] + spent["completion_tokens"]
        for name, limit, used, unit in (
            ("budget_tokens", settings.budget_tokens, tokens, "tokens"),
            ("budget_money", settings.budget_money, spent["money"], "(money)"),
        ):
            if limit and used >= limit:
                raise EngineError(
                    f"the budget of {limit:.12g} {unit} for {model} is spent ({used:.12g} used); set a larger "
                    f"chat.{name} and resume the run"
                )

    def enter(self, settings: ChatSettings, prompt_tokens: int, completion_tokens: int) -> None:
        """Account for one request."""
        price = prompt_tokens * settings.prompt_price + completion_tokens * settings.completion_price
        entry = (_model(settings), prompt_tokens, completion_tokens, price / _MILLION)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            # The newline comes first: a line that a killed process left unfinished spoils only itself.
            file.write(f"\n{json.dumps(entry)}")
            file.flush()
            os.fsync(file.fileno())
            _add(self._spent, *entry)


def total(path: Path) -> dict[str, dict[str, float]]:
    """What each model has cost, for a run's summary: `requests` that may have been charged for, `prompt_tokens` read,
    `completion_tokens` written, reasoning included, and `money` in the currency of the prices that were set. Empty if
    no model behind an API wrote."""
    found: dict[str, dict[str, float]] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in filter(str.strip, lines):
        try:
            model, prompt_tokens, completion_tokens, money = json.loads(line)
        except ValueError:  # cut short when the process was killed
            continue
        _add(found, model, int(prompt_tokens), int(completion_tokens), float(money))
    return dict(sorted(found.items()))


def _model(settings: ChatSettings) -> str:
    return f"{settings.model} at {settings.base_url}"


def _of(spent: dict[str, dict[str, float]], model: str) -> dict[str, float]:
    """What one model has cost."""
    return spent.setdefault(model, {"requests": 0, "prompt_tokens": 0, "completion_tokens": 0, "money": 0.0})


def _add(spent: dict[str, dict[str, float]], model: str, prompt: int, completion: int, money: float) -> None:
    """One more request."""
    own = _of(spent, model)
    further = {"requests": 1, "prompt_tokens": prompt, "completion_tokens": completion, "money": money}
    for name, more in further.items():
        own[name] += more
