"""Tokens that a run has used of models behind an API: a ledger in the run's folder, one line for each request.

A line is written when the reply arrives, before anything is made of it. So what was paid for counts even where the
process is killed before its samples are stored, and a resumed run begins with what is really left.
"""

import json
import os
import threading
from pathlib import Path

from atlas_gym.agents.engines.engine import EngineError

LEDGER = "spending.jsonl"
"""The ledger's name in the run's folder."""


class Ledger:
    """The tokens of a run, and the budget of each model. Several threads may use it.

    Requests under way when a budget is spent are given up, and what they read is entered as an estimate: it can be
    overshot by at most `concurrency` of them for each engine.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._spent = total(path)

    def require_budget(self, model: str, limit: int) -> None:
        """Raise :class:`EngineError` if the model has used so many tokens; 0: no limit."""
        spent = self._spent.get(model, {})
        used = spent.get("prompt_tokens", 0) + spent.get("completion_tokens", 0)
        if limit and used >= limit:
            raise EngineError(
                f"the budget of {limit} tokens for {model} is spent ({used} used); set a larger chat.budget_tokens "
                "and resume the run"
            )

    def enter(self, model: str, prompt_tokens: int, completion_tokens: int) -> None:
        """Account for one request."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            # The newline comes first: a line that a killed process left unfinished spoils only itself.
            file.write(f"\n{json.dumps([model, prompt_tokens, completion_tokens])}")
            file.flush()
            os.fsync(file.fileno())
            _add(self._spent, model, prompt_tokens, completion_tokens)


def total(path: Path) -> dict[str, dict[str, int]]:
    """What each model has cost, for a run's summary: `requests` that may have been charged for, `prompt_tokens` read
    and `completion_tokens` written, reasoning included. Empty if no model behind an API wrote."""
    found: dict[str, dict[str, int]] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in filter(str.strip, lines):
        try:
            model, prompt_tokens, completion_tokens = json.loads(line)[:3]
        except ValueError:  # cut short when the process was killed
            continue
        _add(found, model, prompt_tokens, completion_tokens)
    return dict(sorted(found.items()))


def _add(spent: dict[str, dict[str, int]], model: str, prompt: int, completion: int) -> None:
    own = spent.setdefault(model, {"requests": 0, "prompt_tokens": 0, "completion_tokens": 0})
    own["requests"] += 1
    own["prompt_tokens"] += prompt
    own["completion_tokens"] += completion
