"""Which engine writes text, and its options.

Four engines answer the same requests (`agents.engines.engine`): transformers in this process (the default), vLLM in
this process, any server that speaks OpenAI's completions protocol, and any that speaks its chat protocol. How each does
non-copy decoding, and what each cannot promise, is in docs/generation.md; models behind an API are in
docs/own-model.md.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

ResponseFormat = Literal["json_schema", "json_object", "none"]


@dataclass(frozen=True)
class Address:
    """Where a model is served."""

    base_url: str
    """Address up to and including the version, for example ``http://localhost:8000/v1``."""
    model: str
    """Name of the model as the server knows it."""
    api_key_env: str = ""
    """Environment variable that holds the API key; empty if the server wants none. Keys stand nowhere
    else."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of each request's body, for example ``{"reasoning_effort": "low"}``."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url must be an http or https address")
        if parts.username is not None or parts.password is not None or parts.query:
            raise ValueError("base_url must not hold credentials: name a variable in api_key_env instead")
        json.dumps(dict(self.extra))  # raises TypeError here rather than at the first call


@dataclass(frozen=True)
class Endpoint(Address):
    """A chat model, and how it is asked."""

    temperature: ClassVar[float] = 0.7
    """The paper's for all supporters; a model that takes no other than its own is asked without it."""
    max_tokens: int = 1024
    """Longest reply asked for, tokens, reasoning included."""
    response_format: ResponseFormat = "json_schema"
    """Constraint asked of the server, where it takes one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.model or self.max_tokens < 1:
            raise ValueError("model must be named and max_tokens positive")


@dataclass(frozen=True)
class ServerSettings(Address):
    """An engine's server, and how patiently it is asked."""

    base_url: str = "http://localhost:8000/v1"
    model: str = ""
    concurrency: int = 8
    """Requests under way at a time."""
    wait_s: float = 900.0
    """A server that gives no usable answer for so long, seconds, ends the process; the run can be resumed. A large
    model takes minutes to load again."""
    deadline_s: ClassVar[float] = 120.0
    """Hard wall-clock limit of a sample with all attempts and pauses, seconds: a long function of a slow model ends
    well within it."""
    attempts: ClassVar[int] = 8
    """Requests for a sample, with growing pauses, half a minute in all: what fails for a moment, or is above a rate, is
    asked again, what fails longer is waited for."""
    reply_bytes: ClassVar[int] = 1_000_000
    """Largest HTTP body that is read, bytes; answers have some thousands."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.concurrency < 1 or self.wait_s < 0:
            raise ValueError("concurrency must be positive and wait_s at least 0")


@dataclass(frozen=True)
class ChatSettings:
    """What an endpoint with `/v1/chat/completions` is asked for, and how much of it."""

    styles: Mapping[str, float] = field(default_factory=lambda: {"rewrite": 1.0, "diff": 1.0})
    """What is asked for, and how often, relative to each other: `rewrite`, a whole program, or `diff`, blocks that
    replace text of the parent (cheaper where programs are long). Takes the place of `agent.styles`."""
    max_tokens: int = 2048
    """Longest reply, tokens, reasoning included. Sent as `max_tokens`, or as `max_completion_tokens` where that is
    refused."""
    response_format: ResponseFormat = "json_schema"
    """Constraint on replies that is asked of the server, where it takes one. `none` for models that write better
    code as plain text."""
    budget_tokens: int = 0
    """So many tokens, read and written, may the run use; then it stops and can be resumed with more. 0: no limit."""

    def __post_init__(self) -> None:
        if set(self.styles) - {"rewrite", "diff"} or not any(weight > 0 for weight in self.styles.values()):
            raise ValueError("chat.styles takes rewrite and diff, one of them with a positive weight")
        if self.max_tokens < 1 or min(self.budget_tokens, *self.styles.values()) < 0:
            raise ValueError("chat.max_tokens must be positive, weights and budget_tokens not negative")


@dataclass(frozen=True)
class VLLMSettings:
    """vLLM inside this process."""

    max_num_seqs: int = 64
    """Most samples that are decoded at a time."""
    memory: float = 0.4
    """GPU: share of the memory that the engine takes, weights included. CPU: GB of key/value cache."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of vLLM's engine, for example `tensor_parallel_size: 2`, `max_model_len: 8192`
    (longest prompt and completion together, tokens), `dtype: float16` or `enforce_eager: true` (nothing is compiled:
    quicker to start, slower to decode)."""

    def __post_init__(self) -> None:
        if self.max_num_seqs < 1 or self.memory <= 0:
            raise ValueError("max_num_seqs and memory must be positive")
        if "trust_remote_code" in self.extra:
            raise ValueError(
                "vllm.extra must not hold trust_remote_code: code of a model's folder never runs here"
            )


@dataclass(frozen=True)
class EngineSettings:
    """The engine that writes text."""

    name: Literal["auto", "transformers", "vllm", "openai", "chat"] = "transformers"
    """`transformers` and `vllm` run the model in this process, `auto` is `vllm` where that is installed and has a GPU,
    else `transformers`; `openai` asks a server with `/v1/completions`, `chat` one with `/v1/chat/completions`."""
    vllm: VLLMSettings = field(default_factory=VLLMSettings)
    """Options of `vllm`."""
    server: ServerSettings = field(default_factory=ServerSettings)
    """The server of `openai` and `chat`."""
    tokenizer: str = ""
    """With `openai`, the served model's tokenizer: `embedded`, a folder or a Hugging Face id on this machine. Gives the
    `rewrite` style its chat template. Empty: none."""
    chat: ChatSettings = field(default_factory=ChatSettings)
    """Options of `chat`."""

    def __post_init__(self) -> None:
        if self.name in ("openai", "chat") and not self.server.model:
            raise ValueError(f"the engine {self.name} needs server.model, the model's name on the server")

    @property
    def follows_policy(self) -> bool:
        """Whether it can write with tuned adapters."""
        return self.name not in ("openai", "chat")
