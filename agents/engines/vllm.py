"""Text from vLLM inside this process, and the policy's adapters in the running engine.

*Requests.* The prompt is shared by all samples through the engine's prefix cache. Each sample is a request with
its own seed. One loop feeds the engine: a prompt whose samples must not copy their
parent is first scored along the parent's line (`prompt_logprobs`), and the moment its scores arrive, its samples
follow as forced prefixes (`agents.engines.sampling`). So non-copy decoding costs one reading of each prompt, which the
samples then find in the cache.

*Adapters.* `merged`: the policy's merged weights, computed as for transformers, are written into the running engine
(`reload_weights`), which takes about a second for a small model and costs decoding nothing. `lora`: the adapter is
loaded beside the base. Neither restarts the engine.

*One GPU for both.* While nothing is served the engine sleeps: weights go to main memory, the cache is dropped, and
training has the device. On a CPU it only idles.

Sums over bfloat16 depend on what else is in a batch, so samples equal those of another run as long as the requests
are the same; they are not those of transformers.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from atlas_gym.agents.engines.engine import (
    Completion,
    Engine,
    OnCompletion,
    Request,
    Sampling,
    sample_seed,
)
from atlas_gym.agents.engines.sampling import Sample, Sampler, deviate
from atlas_gym.agents.engines.settings import VLLMSettings
from atlas_gym.agents.engines.vllm_start import start_engine
from atlas_gym.agents.models.policy import Policy
from atlas_gym.agents.models.tokens import encode_prompt


class VLLMEngine(Engine):
    """A running engine, and which of the policy's adapters it has."""

    def __init__(
        self, settings: VLLMSettings, sampling: Sampling, model: Path, folder: Path, policy: Policy | None
    ):
        as_lora = settings.adapter == "lora" and policy is not None
        self._llm = start_engine(settings, model, policy.lora.rank if as_lora and policy else 0)
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        self._params, self._kind = SamplingParams, RequestOutputKind
        self._settings, self._policy, self._folder = settings, policy, folder
        self._engine = self._llm.llm_engine
        config = self._engine.vllm_config
        tokenizer = policy.tokenizer if policy is not None else self._llm.get_tokenizer()
        self._sampler = Sampler(tokenizer, config.model_config.get_vocab_size(), sampling)
        self._longest = config.model_config.max_model_len
        self._asleep = False
        self._merged = ""
        """Digest of the adapter in the weights; empty for the base."""
        self._adapter: Any = None
        """vLLM's `LoRARequest` of the adapter that is served; None for the engine's own weights."""
        self._adapters: dict[str, int] = {}
        self._numbers = itertools.count()
        self._running: dict[str, Sample] = {}
        self._scoring: dict[str, tuple[list[Sample], int]] = {}
        """Requests that score a parent: its samples, and the first of the parent's places that is shown."""
        self._rows: dict[int, dict[int, dict[int, float]]] = {}

    @contextmanager
    def serving(self, adapter: str) -> Iterator[Engine]:
        if self._asleep:
            self._llm.wake_up()
            self._asleep = False
        if self._policy is not None:
            self._put(self._policy, adapter)
        try:
            yield self
        finally:
            if self._engine.vllm_config.model_config.enable_sleep_mode:
                self._llm.sleep(level=1)
                self._asleep = True

    def close(self) -> None:
        self._engine.engine_core.shutdown()
        del self._engine, self._llm

    def _put(self, policy: Policy, adapter: str) -> None:
        """Put an adapter into the engine, unless it is there."""
        if self._settings.adapter == "merged":
            digest = "" if policy.is_base(adapter) else policy.digest(adapter)
            if digest != self._merged:
                with policy.merged(adapter) as model:
                    self._write(model)
                self._merged = digest
        elif policy.is_base(adapter):
            self._adapter = None
        else:  # the engine reads it with the first request, and keeps one
            from vllm.lora.request import LoRARequest

            name, path = policy.written(adapter, self._folder)
            number = self._adapters.setdefault(name, len(self._adapters) + 1)
            self._adapter = LoRARequest(name, number, str(path))

    def _write(self, model: Any) -> None:
        """Put a model's weights into the running engine; cached prefixes were computed with the old ones."""
        weights = _plain_weights(model)
        if self._engine.vllm_config.parallel_config.world_size == 1:
            self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights.items())})
        else:  # workers are processes of their own: they read what this one writes
            from safetensors.torch import save_file

            path = self._folder / "merged"
            path.mkdir(parents=True, exist_ok=True)
            save_file(
                {name: tensor.contiguous() for name, tensor in weights.items()}, path / "model.safetensors"
            )
            self._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(path.resolve())})
        self._llm.reset_prefix_cache()

    def stream(self, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        try:
            for index, request in enumerate(requests):
                self._begin(index, request, on_completion)
            while self._engine.has_unfinished_requests():
                for output in self._engine.step():
                    self._take_up(output, requests, on_completion)
        finally:
            self._engine.abort_request([*self._running, *self._scoring])
            self._running.clear()
            self._scoring.clear()
            self._rows.clear()

    def _begin(self, index: int, request: Request, on_completion: OnCompletion) -> None:
        prompt = encode_prompt(self._sampler.tokenizer, request.prompt)
        samples = self._sampler.begin(index, request, prompt)
        parent = samples[0].parent
        if len(prompt) + len(parent or ()) >= self._longest:
            for sample in samples:  # nothing can be written after it
                on_completion(index, sample.index, Completion("", 0, False))
        elif parent is None:
            self._continue(samples, request, on_completion)
        else:
            self._rows[index] = {}
            # vLLM 0.32 fails on prompt log-probabilities in an engine for adapters: its output head then expects one
            # row per request. There the end is asked for first, and then, with the prompt in the cache, each place
            # before it.
            along = bool(parent) and self._engine.vllm_config.lora_config is None
            self._score(samples, request, len(parent), along)

    def _score(self, samples: list[Sample], request: Request, place: int, along: bool = False) -> None:
        """Ask for the distribution at a place of the parent, and on request along the way there."""
        top_k = self._sampler.sampling.top_k
        # Banned tokens are left out afterwards; so many more are asked for.
        shown = top_k + len(self._banned(request)) if top_k else -1
        params = self._params(
            max_tokens=1,
            temperature=0.0,
            logprobs=shown,
            prompt_logprobs=shown if along else None,
            detokenize=False,
            output_kind=self._kind.FINAL_ONLY,
        )
        key = self._add(samples[0].prompt + (samples[0].parent or [])[:place], params)
        self._scoring[key] = samples, 0 if along else place

    def _banned(self, request: Request) -> list[int]:
        """Token ids that are never drawn for the request."""
        text = self._sampler.sampling.banned(request.stop)
        return self._sampler.vocabulary.banned(text).nonzero().flatten().tolist() if text else []

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
        self._engine.add_request(key, {"prompt_token_ids": tokens}, params, lora_request=self._adapter)
        return key

    def _take_up(self, output: Any, requests: Sequence[Request], on_completion: OnCompletion) -> None:
        key, written = output.request_id, output.outputs[0]
        if key in self._scoring:
            if output.finished:
                samples, first = self._scoring.pop(key)
                self._keep(samples, first, output, requests[samples[0].request], on_completion)
            return
        sample = self._running.get(key)
        if sample is None:
            return
        own = [] if sample.parent is None else sample.drawn[:1]  # what was drawn here, for the forced prefix
        sample.drawn = [*own, *written.token_ids]
        text, ended = sample.text(self._sampler.tokenizer)
        if not (ended or output.finished):
            return
        del self._running[key]
        if not output.finished:
            self._engine.abort_request([key])
        ended = ended or written.finish_reason == "stop"
        on_completion(sample.request, sample.index, Completion(text, len(sample.drawn), ended))

    def _keep(
        self, samples: list[Sample], first: int, output: Any, request: Request, on_completion: OnCompletion
    ) -> None:
        """Keep what a scoring request has shown; the last one of a prompt is followed by its samples."""
        found, parent = self._rows[samples[0].request], samples[0].parent or []
        start = len(samples[0].prompt) + first
        rows = [*(output.prompt_logprobs or [])[start:], output.outputs[0].logprobs[0]]
        for place, row in enumerate(rows, start=first):
            found[place] = {token: shown.logprob for token, shown in row.items()}
        if len(found) == len(parent) + 1:
            line_end = self._sampler.vocabulary.line_end
            deviate(samples, self._logits(request, found), line_end, self._sampler.sampling)
            self._continue(samples, request, on_completion)
        elif len(found) == 1:
            for place in range(len(parent)):
                self._score(samples, request, place)

    def _logits(self, request: Request, found: Mapping[int, Mapping[int, float]]) -> torch.Tensor:
        """(places, vocabulary) of the log-probabilities found at each place; -inf for others and for banned tokens."""
        logits = torch.full((len(found), len(self._sampler.vocabulary.end)), float("-inf"))
        for place, row in found.items():
            logits[place, list(row)] = torch.tensor(list(row.values()))
        logits[:, self._banned(request)] = float("-inf")
        return logits


def _plain_weights(model: Any) -> dict[str, torch.Tensor]:
    """A PEFT model's state by the names of its checkpoint, each tied weight once."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict().items():
        if "lora_" not in name and tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            found[name.replace(".base_layer.", ".")] = tensor
    return found
