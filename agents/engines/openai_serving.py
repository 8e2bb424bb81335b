"""Serving the policy from a server: its adapters are loaded into a vLLM server by name, phase after phase.

An adapter is written into the run's folder under the first digits of its digest, which is also its name on the
server; an adapter whose update is zero is the base model and needs no loading. A server that was restarted has
forgotten the adapter: the first request that finds it missing loads it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from agents.engines.completions import OpenAIGenerator
from agents.engines.completions_client import CompletionsClient
from agents.engines.engine import Generator, Sampling
from agents.engines.settings import OpenAISettings
from agents.models.policy import Policy


def is_base(policy: Policy, adapter: str) -> bool:
    """Whether an adapter changes nothing."""
    return not any(torch.any(t) for name, t in policy.tensors(adapter).items() if ".lora_B." in name)


def written_adapter(policy: Policy, adapter: str, folder: Path) -> tuple[str, Path]:
    """An adapter's name by its content, and the folder it is in, written there if it was not."""
    name = f"atlas-{policy.digest(adapter)[:16]}"
    path = (folder / name).resolve()
    if not path.exists():
        policy.save(adapter, path)
    return name, path


class OpenAIBackend:
    """A server, and which of the policy's adapters it has."""

    def __init__(
        self,
        settings: OpenAISettings,
        sampling: Sampling,
        folder: Path,
        policy: Policy | None,
        tokenizer: Any,
    ) -> None:
        self.client = CompletionsClient(settings)
        self._policy = policy if settings.lora_loading != "none" else None
        self._folder = folder
        self._lock = threading.Lock()
        self._loaded: tuple[str, Path] | None = None
        self._loaded_at = 0.0
        self._generator = OpenAIGenerator(self.client, sampling, tokenizer, self._reload)

    @contextmanager
    def serving(self, adapter: str) -> Iterator[Generator]:
        """The generator that writes with this adapter, which is loaded first if it must be."""
        if self._policy is not None:
            self._load(self._policy, adapter)
        yield self._generator

    def close(self) -> None:
        """Make the server forget the adapter."""
        if self._loaded is not None:
            self.client.unload_adapter(self._loaded[0])
            self._loaded = None

    def _load(self, policy: Policy, adapter: str) -> None:
        wanted = None if is_base(policy, adapter) else written_adapter(policy, adapter, self._folder)
        if wanted == self._loaded:
            return
        self.client.begin()
        old, self._loaded = self._loaded, wanted
        if wanted is not None:
            self.client.load_adapter(wanted[0], str(wanted[1]))
            self._loaded_at = time.monotonic()
        self.client.model = self.client.settings.model if wanted is None else wanted[0]
        if old is not None:
            self.client.unload_adapter(old[0])

    def _reload(self, since: float) -> None:
        with self._lock:
            if self._loaded is not None and self._loaded_at < since:
                self.client.load_adapter(self._loaded[0], str(self._loaded[1]))
                self._loaded_at = time.monotonic()
