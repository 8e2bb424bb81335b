"""Text from vLLM inside this process, and the policy's adapters in the running engine.

*Requests.* Each sample is a request with its own seed. A prompt whose samples must not copy their parent is first
scored along the parent's line (`prompt_logprobs`); its samples follow as forced prefixes (`agents.engines.sampling`).

*Adapters.* The policy's merged weights are written into the running engine (`reload_weights`), which takes about a
second for a small model and costs decoding nothing. While nothing is served the engine sleeps, so that training has the
GPU.

*Environment.* vLLM fixes versions of torch and transformers, so it usually lives in an environment of its own (`make
vllm`). Its scheduler runs in this process, so that the order of its work, and its results, repeat. Sums over bfloat16
depend on the batch: samples repeat for the same requests, and are not those of transformers.
"""

import itertools
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from atlas_gym.agents.engines.engine import (
    Completion,
    Engine,
    EngineError,
    OnCompletion,
    Request,
    Sampling,
    sample_seed,
)
from atlas_gym.agents.engines.sampling import Sample, Sampler, first_tokens
from atlas_gym.agents.engines.settings import VLLMSettings
from atlas_gym.agents.models.policy import Policy
from atlas_gym.agents.models.tokens import encode_prompt

_BLOCK = 32
"""Tokens per block of the prefix cache on a CPU, whose own 128 are longer than most of what prompts share."""

_INSTALL = (
    "on a machine without a GPU run `make vllm` and use .venv-vllm/bin/python; on a GPU machine install "
    "`atlas-gym[vllm]` in an environment of its own"
)


def require_vllm() -> Any:
    """The module vllm; :class:`EngineError` if it is missing or cannot work with what else is installed."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    # Evaluators share the cores; a process that binds its threads to some of them would starve on a busy one.
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # it reads every name that torch has, old ones too
            import vllm
    except ImportError as error:
        raise EngineError(
            f"vLLM cannot be imported here ({error}). It wants torch and transformers of its own versions, and no "
            f"torchvision, torchaudio or torchcodec of others: {_INSTALL}"
        ) from error
    return vllm


def start_engine(settings: VLLMSettings, folder: Path) -> Any:
    """vLLM's `LLM` on the model in `folder`. Raises :class:`EngineError`."""
    vllm = require_vllm()
    on_gpu = torch.cuda.is_available()
    options: dict[str, Any] = {
        "model": str(folder),
        "dtype": "bfloat16",
        "max_model_len": 4096,
        "max_num_seqs": settings.max_num_seqs,
        "max_logprobs": -1,
        "trust_remote_code": False,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "enforce_eager": not on_gpu,
    }
    if on_gpu:
        options |= {"gpu_memory_utilization": settings.memory, "enable_sleep_mode": True}
    else:
        options |= {"kv_cache_memory_bytes": int(settings.memory * 2**30), "block_size": _BLOCK}
    set_threads = torch.set_num_threads  # vLLM replaces it by a function that does nothing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return vllm.LLM(**(options | dict(settings.extra)))
    except (ValueError, RuntimeError, OSError, AssertionError) as error:
        raise EngineError(
            f"vLLM does not start on {folder}: {error}. backend.name: transformers goes without it"
        ) from error
    finally:
        torch.set_num_threads = set_threads


class VLLMEngine(Engine):
    """A running engine, and which of the policy's adapters it has."""

    def __init__(
        self, settings: VLLMSettings, sampling: Sampling, model: Path, folder: Path, policy: Policy | None
    ):
        self._llm = start_engine(settings, model)
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._params, self._kind = SamplingParams, RequestOutputKind
        self._policy, self._folder = policy, folder
        self._engine = self._llm.llm_engine
        config = self._engine.vllm_config
        tokenizer = policy.tokenizer if policy else self._llm.get_tokenizer()
        self._sampling = sampling
        self._sampler = Sampler(tokenizer, config.model_config.get_vocab_size(), sampling)
        self._longest = config.model_config.max_model_len
        self._asleep = False
        self._merged = ""  # digest of the adapter in the weights; empty for the base
        self._numbers = itertools.count()
        self._running: dict[str, Sample] = {}
        self._scoring: dict[str, list[Sample]] = {}  # samples that wait for their parent's scores

    @contextmanager
    def serving(self, adapter: str) -> Iterator[Engine]:
        if self._asleep:
            self._llm.wake_up()
            self._asleep = False
        if (policy := self._policy) is not None:
            digest = "" if policy.is_base(adapter) else policy.digest(adapter)
            self._sampler.sampling = self._sampling.of_policy(tuned=bool(digest))
            if digest != self._merged:
                with policy.merged(adapter) as model:
                    self._write(model)
                self._merged = digest
        try:
            yield self
        finally:
            if self._engine.vllm_config.model_config.enable_sleep_mode:
                self._llm.sleep(level=1)
                self._asleep = True

    def close(self) -> None:
        self._engine.engine_core.shutdown()
        del self._engine, self._llm

    def _write(self, model: Any) -> None:
        """Put a PEFT model's weights into the running engine; cached prefixes were computed with the old ones."""
        weights: dict[str, torch.Tensor] = {}  # by the names of its checkpoint, each tied weight once
        seen: set[int] = set()
        for name, tensor in model.state_dict().items():
            if "lora_" not in name and tensor.data_ptr() not in seen:
                seen.add(tensor.data_ptr())
                weights[name.replace(".base_layer.", ".")] = tensor
        if self._engine.vllm_config.parallel_config.world_size == 1:
            self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights.items())})
        else:  # workers are processes of their own: they read what this one writes
            from safetensors.torch import save_file

            path = self._folder / "merged"
            path.mkdir(parents=True, exist_ok=True)
            contiguous = {name: tensor.contiguous() for name, tensor in weights.items()}
            save_file(contiguous, path / "model.safetensors")
            self._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(path.resolve())})
        self._llm.reset_prefix_cache()

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        try:
            for index, request in enumerate(requests):
                self._begin(index, request, on_completion)
            while self._engine.has_unfinished_requests():
                for output in self._engine.step():
                    if samples := self._scoring.get(output.request_id):
                        if output.finished:
                            del self._scoring[output.request_id]
                            self._force(samples, output, requests[samples[0].request], on_completion)
                    elif output.request_id in self._running:
                        self._take_up(output, on_completion)
        finally:
            self._engine.abort_request([*self._running, *self._scoring])
            self._running.clear()
            self._scoring.clear()

    def _begin(self, index: int, request: Request, on_completion: OnCompletion) -> None:
        """Ask for a request's samples, or for the distributions along the parent that they must not copy."""
        prompt = encode_prompt(self._sampler.tokenizer, request.prompt)
        samples = self._sampler.begin(index, request, prompt)
        parent = samples[0].parent
        if len(prompt) + len(parent or ()) >= self._longest:
            for sample in samples:  # nothing can be written after it
                on_completion(index, sample.index, Completion("", 0, False))
        elif parent is None:
            self._continue(samples, request, on_completion)
        else:
            top_k = self._sampler.sampling.top_k
            # Banned tokens are left out afterwards; so many more are asked for.
            shown = top_k + len(self._banned(request)) if top_k else -1
            params = self._params(
                max_tokens=1,
                temperature=0.0,
                logprobs=shown,
                prompt_logprobs=shown if parent else None,
                detokenize=False,
                output_kind=self._kind.FINAL_ONLY,
            )
            self._scoring[self._add(prompt + parent, params)] = samples

    def _banned(self, request: Request) -> list[int]:
        """Token ids that are never drawn for the request."""
        text = self._sampler.sampling.banned(request.stop)
        return self._sampler.vocabulary.banned(text).nonzero().flatten().tolist() if text else []

    def _force(
        self, samples: list[Sample], output: Any, request: Request, on_completion: OnCompletion
    ) -> None:
        """Draw where samples leave their parent, given the scores along it, and ask for what follows."""
        shown = [*(output.prompt_logprobs or [])[len(samples[0].prompt) :], output.outputs[0].logprobs[0]]
        # (places, vocabulary) of log-probabilities; -inf for tokens that are not shown and for banned ones.
        logits = torch.full((len(shown), len(self._sampler.vocabulary.end)), float("-inf"))
        for place, row in enumerate(shown):
            logits[place, list(row)] = torch.tensor([token.logprob for token in row.values()])
        logits[:, self._banned(request)] = float("-inf")
        uniforms = torch.stack([sample.uniforms for sample in samples])
        followed, drawn = first_tokens(
            logits[None], samples[:1], torch.zeros(len(samples), dtype=torch.long), uniforms,
            self._sampler.vocabulary.line_end, self._sampler.sampling,
        )  # fmt: skip
        for sample, kept, token in zip(samples, followed.tolist(), drawn.tolist(), strict=True):
            sample.followed = kept
            sample.drawn.append(token)
        self._continue(samples, request, on_completion)

    def _continue(self, samples: list[Sample], request: Request, on_completion: OnCompletion) -> None:
        sampling = self._sampler.sampling
        line = request.stop == "line"
        banned = dict.fromkeys(self._banned(request), -100.0)
        for sample in samples:
            tokens = sample.prompt + sample.begun
            completion = self._sampler.completion(sample) if sample.drawn else None
            if completion is None and len(tokens) >= self._longest:
                completion = Completion(sample.text(self._sampler.tokenizer)[0], len(sample.drawn), False)
            if completion is not None:
                on_completion(sample.request, sample.index, completion)
                continue
            params = self._params(
                temperature=sampling.temperature,
                top_k=sampling.top_k,
                seed=sample_seed(request, sample.index),
                max_tokens=sample.limit - len(sample.drawn),
                logit_bias=banned or None,
                stop=["\n"] if line else None,
                include_stop_str_in_output=line,
                detokenize=line,
                # The end of a function is no fixed text: it is looked for after each token.
                output_kind=self._kind.FINAL_ONLY if line else self._kind.CUMULATIVE,
            )
            self._running[self._add(tokens, params)] = sample

    def _add(self, tokens: list[int], params: Any) -> str:
        key = str(next(self._numbers))
        self._engine.add_request(key, {"prompt_token_ids": tokens}, params)
        return key

    def _take_up(self, output: Any, on_completion: OnCompletion) -> None:
        """Hand a sample over if what has been written by now is all of it."""
        sample, written = self._running[output.request_id], output.outputs[0]
        own = [] if sample.parent is None else sample.drawn[:1]  # what was drawn here, for the forced prefix
        sample.drawn = [*own, *written.token_ids]
        text, ended = sample.text(self._sampler.tokenizer)
        if ended or output.finished:
            del self._running[output.request_id]
            if not output.finished:
                self._engine.abort_request([output.request_id])
            ended = ended or written.finish_reason == "stop"
            on_completion(sample.request, sample.index, Completion(text, len(sample.drawn), ended))
