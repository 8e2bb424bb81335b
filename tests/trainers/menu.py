"""An engine that lets random weights write programs: they choose from a menu of edits.

Each edit is drawn with a probability that its likelihood under the model decides: tuning the model changes what
is written, and a phase of a fraction of a second can be seen in the scores of fresh completions.
"""

from collections.abc import Sequence
from contextlib import contextmanager
from functools import lru_cache

import torch

from atlas_gym.agents.engines.engine import Completion, Engine, OnCompletion, Request
from atlas_gym.seeding import stream

_LEARNS = (
    " np.linalg.solve(0.{0:03d} * np.eye(d) + history.contexts.T @ history.contexts,"
    " history.contexts.T @ history.rewards)\n"
)

MENU = (_LEARNS, " 1.{0:03d} * context[0]\n", " 0.{0:03d}\n", " {0} +\n")
"""For each site of the bandit's start `scratch` one at least that runs, and one at least that does not; each with a
random number, so that what is drawn again is new."""

_READ = 200
"""Of a prompt only this many characters at its end are read: enough to tell prompts apart, and quick."""


class MenuEngine(Engine):
    """Answers every request from `MENU`.

    Args:
        model: the weights; they do not change while an adapter is served.
        tokenizer: theirs.
        sampling: nothing of it is used.
        policy: whose adapters are served.
    """

    def __init__(self, model, tokenizer, sampling, policy):
        self._model = model
        self._tokenizer = tokenizer
        self._policy = policy

    @contextmanager
    def serving(self, adapter):
        with self._policy.merged(adapter):
            self._chances = lru_cache(self._chances_of)
            yield self

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        """Draw `n` entries of the menu for each request, under its seed."""
        for index, request in enumerate(requests):
            rng = stream(request.seed, "menu")
            drawn = rng.choice(len(MENU), request.n, p=self._chances(request.prompt))
            for sample, entry in enumerate(drawn):
                text = MENU[entry].format(int(rng.integers(1, 1000)))
                on_completion(index, sample, Completion(text, tokens=len(text)))

    def _chances_of(self, prompt: str) -> list[float]:
        found = [self._log_probability(prompt, edit) for edit in MENU]
        return torch.softmax(torch.tensor(found, dtype=torch.float64), 0).tolist()

    @torch.inference_mode()
    def _log_probability(self, prompt: str, edit: str) -> float:
        before, after = (self._tokenizer(text)["input_ids"] for text in (prompt[-_READ:], edit))
        asked = torch.tensor([before + after], device=self._model.device)
        logits = self._model(asked, logits_to_keep=len(after) + 1).logits[0, :-1]
        rows = torch.log_softmax(logits.double().cpu(), -1)
        return float(rows[torch.arange(len(after)), torch.tensor(after)].mean())
