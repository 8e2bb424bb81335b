"""Which engine writes text, and its options.

Three engines answer the same requests (`agents.engines.engine`): transformers in this process (the default), vLLM in
this process, and any server that speaks OpenAI's completions protocol. How each does non-copy decoding, and what
each cannot promise, is in docs/generation.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agents.engines.http import check_base_url


@dataclass(frozen=True)
class OpenAISettings:
    """A server with `/v1/completions`, and how patiently it is asked."""

    base_url: str = "http://localhost:8000/v1"
    """Address up to and including the version."""
    model: str = ""
    """Name of the model as the server knows it."""
    api_key_env: str = ""
    """Environment variable that holds the API key; empty if the server wants none. Keys stand nowhere
    else."""
    tokenizer: str = ""
    """The served model's tokenizer: `embedded`, a folder or a Hugging Face id on this machine. Gives the
    `rewrite` style its chat template; `scored` needs it. Empty: none, or the policy's where there is one."""
    non_copy: Literal["redraw", "scored"] = "redraw"
    """How a sample is kept from repeating its parent. `redraw`: copies are dropped and drawn again, which any
    server can do and which wastes what a model copies. `scored`: the model's distribution along the parent's
    line is asked for, as the engines in this process do; the server must take token ids as a prompt and
    return log-probabilities (vLLM, llama.cpp)."""
    redraws: int = 8
    """`redraw`: most further draws of a sample that is a copy; one that is still a copy stays one."""
    logprobs: int = 20
    """`scored`: likeliest tokens asked for at each place (vLLM's own limit is 20, see `--max-logprobs`)."""
    extensions: bool = True
    """Whether the server knows `top_k` and `min_p` (vLLM and llama.cpp do, OpenAI's own does not)."""
    concurrency: int = 8
    """Requests under way at a time."""
    deadline_s: float = 120.0
    """Hard wall-clock limit of one request, seconds."""
    attempts: int = 4
    """A sample that fails so often, while the server is otherwise well, is given up: it counts as empty."""
    wait_s: float = 900.0
    """A server that gives no usable answer for so long, seconds, ends the process; the run can be resumed."""
    pause_s: float = 0.5
    """Wait before asking again, seconds; doubles with each failure, up to 30 s."""
    reply_bytes: int = 1_000_000
    """Largest HTTP body that is read, bytes."""
    lora_loading: Literal["none", "vllm"] = "none"
    """`vllm`: after each phase the new adapter is loaded into the server through `/v1/load_lora_adapter`
    (start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1; it must see the run's folder).
    `none`: the server's weights stay as they are, so nothing can be tuned."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of each completion request."""

    def __post_init__(self) -> None:
        check_base_url(self.base_url)
        if min(self.concurrency, self.attempts, self.reply_bytes, self.logprobs) < 1 or self.redraws < 0:
            raise ValueError(
                "concurrency, attempts, reply_bytes and logprobs must be positive, redraws not negative"
            )
        if self.deadline_s <= 0 or self.wait_s < 0 or self.pause_s < 0:
            raise ValueError("deadline_s must be positive, wait_s and pause_s at least 0")
        json.dumps(dict(self.extra))  # raises TypeError here rather than at the first call


@dataclass(frozen=True)
class VLLMSettings:
    """vLLM inside this process."""

    adapter: Literal["merged", "lora"] = "merged"
    """How the policy's adapter reaches the engine: `merged` writes merged weights into the running engine
    (fast to decode); `lora` loads the adapter beside the base (fast to swap)."""
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    """Type of the weights."""
    max_model_len: int = 4096
    """Longest prompt and completion together, tokens."""
    max_num_seqs: int = 64
    """Most samples that are decoded at a time."""
    memory: float = 0.4
    """GPU: share of the memory that the engine takes, weights included. CPU: GB of key/value cache."""
    sleep: bool = True
    """GPU: whether the engine gives its memory back while a phase trains (ignored on a CPU)."""
    compile: bool = True
    """Whether vLLM compiles the model: slower to start, faster to decode. Never on a CPU."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of vLLM's engine, for example `tensor_parallel_size: 2`."""

    def __post_init__(self) -> None:
        if self.max_model_len < 1 or self.max_num_seqs < 1 or self.memory <= 0:
            raise ValueError("max_model_len, max_num_seqs and memory must be positive")


@dataclass(frozen=True)
class BackendSettings:
    """The engine that writes text."""

    name: Literal["transformers", "vllm", "openai"] = "transformers"
    """`transformers` and `vllm` run the model in this process, `openai` asks a server."""
    vllm: VLLMSettings = field(default_factory=VLLMSettings)
    """Options of `vllm`."""
    openai: OpenAISettings = field(default_factory=OpenAISettings)
    """Options of `openai`."""

    def __post_init__(self) -> None:
        if self.name == "openai" and not self.openai.model:
            raise ValueError("the backend openai needs openai.model, the model's name on the server")
        if self.name == "openai" and self.openai.non_copy == "scored" and not self._has_tokenizer:
            raise ValueError("non_copy: scored needs openai.tokenizer, the served model's tokenizer")

    @property
    def _has_tokenizer(self) -> bool:
        return bool(self.openai.tokenizer) or self.openai.lora_loading != "none"

    @property
    def follows_policy(self) -> bool:
        """Whether it can write with tuned adapters."""
        return self.name != "openai" or self.openai.lora_loading != "none"


@dataclass(frozen=True)
class IslandModel:
    """A model of their own for some islands. It is never tuned; what it writes trains the policy all the same."""

    islands: tuple[int, ...] = ()
    """Indices of the islands that it writes for."""
    model: str = "embedded"
    """Its weights (`embedded`, a folder, a Hugging Face id); a server has its own."""
    backend: BackendSettings = field(default_factory=BackendSettings)
    """The engine that runs it."""

    def __post_init__(self) -> None:
        if not self.islands:
            raise ValueError("islands must name the islands that this model writes for")
        if self.backend.openai.lora_loading != "none":
            raise ValueError("an island's own model is not tuned: lora_loading belongs to the run's backend")
