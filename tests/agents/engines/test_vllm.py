"""vLLM in process. The checks that need it run in its own environment (`make vllm`), started from here."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from atlas_gym.agents.engines import vllm as vllm_engine
from atlas_gym.agents.engines.engine import EngineError, Sampling
from atlas_gym.agents.engines.open_engine import engine_here, open_engine
from atlas_gym.agents.engines.settings import EngineSettings, VLLMSettings
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.agents.population.candidate import Proposal
from tests.tiny_model import byte_tokenizer

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / os.environ.get("VENV_VLLM", ".venv-vllm") / "bin" / "python"

SAMPLING = Sampling(temperature=0.9, top_k=12, max_new_tokens=12, max_function_tokens=20)
REQUESTS = [
    Proposal("def f(x):\n    a =", 12, avoid=" x + 1", seed=1),
    Proposal("a = 1\nb =", 6, seed=2),
    Proposal("a = 1\nb =", 6, avoid="", seed=3),
    Proposal("def f(x):", 4, avoid="\n    return x", stop="function", seed=4),
    Proposal("def f(x):", 4, stop="function", seed=5),
    Proposal("b =", 6, seed=6),
]


def _here() -> bool:
    try:
        vllm_engine.require_vllm()
    except EngineError:
        return False
    return True


INSIDE = pytest.mark.skipif(
    not _here(), reason="vLLM is not in this environment: its own runs this, see below"
)


def test_where_it_is_missing_the_way_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(EngineError, match="make vllm"):
        vllm_engine.require_vllm()


@pytest.mark.parametrize(
    ("installed", "device", "gpu", "bfloat16", "chosen"),
    [
        (True, "auto", True, True, "vllm"),
        (False, "auto", True, True, "transformers"),
        (True, "cpu", True, True, "transformers"),
        (True, "auto", False, False, "transformers"),
        (True, "cuda", True, False, "transformers"),
    ],
)
def test_auto_is_vllm_where_it_is_installed_and_has_a_gpu(
    monkeypatch, installed, device, gpu, bfloat16, chosen
):
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm") if installed else None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bfloat16)
    assert engine_here(device) == chosen


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.skipif(_here(), reason="this is that environment")
def test_in_its_own_environment():
    if not PYTHON.exists():
        pytest.skip(f"{PYTHON} does not exist: make vllm")
    command = [str(PYTHON), "-m", "pytest", "-m", "slow or not slow", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1400, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "passed, 1 skipped" in done.stdout


# ---- what follows runs where vLLM is -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A Llama of random weights whose heads are wide enough for vLLM's attention, in float32."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.2, tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
        max_position_embeddings=512,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def tune(policy, seed):
    source = torch.Generator().manual_seed(seed)
    for name, tensor in policy.tensors(POLICY).items():
        if ".lora_B." in name:
            tensor.data.copy_(torch.randn(tensor.shape, generator=source) * (0.3 if seed else 0.0))


def firsts(backend, adapter=POLICY):
    """What 60 samples keep of their parent, and their first token: equal numbers, so equal models agree."""
    with backend.serving(adapter) as generator:
        drawing = getattr(generator, "_sampler", generator)
        drawing.sampling = replace(SAMPLING, max_new_tokens=1)
        try:
            (row,) = generator.generate([Proposal("def f(x):\n    a =", 60, avoid=" x + 1", seed=9)])
        finally:
            drawing.sampling = SAMPLING
    return [completion.text for completion in row]


@pytest.fixture(scope="module")
def engines(model, tmp_path_factory):
    """The policy, and its two backends: vLLM and transformers."""
    policy = Policy.load(model, dtype=torch.float32, lora=LoraSettings(rank=4))
    options = VLLMSettings(memory=0.25, extra={"dtype": "float32", "max_model_len": 256})
    folder = tmp_path_factory.mktemp("served")
    vllm = open_engine(
        EngineSettings("vllm", vllm=options), SAMPLING, model=str(model), folder=folder, policy=policy
    )
    yield policy, vllm, open_engine(EngineSettings(), SAMPLING, model="", folder=folder, policy=policy)
    vllm.close()


@INSIDE
@pytest.mark.slow
def test_samples_leave_their_parent_as_those_of_transformers_do_with_every_adapter(engines):
    policy, vllm, transformers = engines
    seen = []
    for seed in (0, 1, 2):
        tune(policy, seed)
        found = firsts(vllm)
        assert found == firsts(transformers)
        assert firsts(vllm, REFERENCE) == firsts(transformers, REFERENCE)
        seen.append(found)
    assert seen[0] != seen[1] != seen[2]
    tune(policy, 0)
    assert firsts(vllm) == seen[0]  # the base is back in the engine


@INSIDE
@pytest.mark.slow
def test_completions_end_where_they_should_and_repeat(engines):
    policy, vllm, _ = engines
    tune(policy, 1)
    with vllm.serving(POLICY) as generator:
        rows, again = generator.generate(REQUESTS), generator.generate(REQUESTS)
    assert rows == again
    assert [len(row) for row in rows] == [request.n for request in REQUESTS]
    for request, row in zip(REQUESTS, rows, strict=True):
        limit = SAMPLING.max_new_tokens if request.stop == "line" else SAMPLING.max_function_tokens
        for completion in row:
            assert completion.tokens <= limit
            assert completion.finished or completion.tokens == limit
            if request.stop == "line":
                assert "\n" not in completion.text[:-1]
                assert "#" not in completion.text
            if request.avoid is not None and completion.finished:
                assert completion.text.rstrip("\n") != request.avoid.rstrip("\n")
    assert len({c.text for c in rows[0]}) > 3


@INSIDE
@pytest.mark.slow
def test_each_completion_comes_once_and_an_interrupted_engine_can_go_on(engines):
    policy, vllm, _ = engines
    tune(policy, 0)
    with vllm.serving(POLICY) as generator:
        whole = generator.generate(REQUESTS)
        calls = []

        def interrupt(*call):
            calls.append(call)
            if len(calls) == 10:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            generator.stream(REQUESTS, interrupt)
        assert not vllm._llm.llm_engine.has_unfinished_requests()
        assert generator.generate(REQUESTS) == whole
        calls.clear()
        generator.stream(REQUESTS, lambda *call: calls.append(call))
    assert sorted((r, s) for r, s, _ in calls) == [(i, s) for i, r in enumerate(REQUESTS) for s in range(r.n)]


@INSIDE
@pytest.mark.slow
def test_a_prompt_that_is_too_long_is_no_error(engines):
    _, vllm, _ = engines
    with vllm.serving(POLICY) as generator:
        (row,) = generator.generate([Proposal("x" * 300, 2)])
        (cut,) = generator.generate([Proposal("x" * 250 + "a =", 2, avoid=" 1")])
    assert [(c.text, c.finished) for c in row] == [("", False)] * 2
    assert len(cut) == 2
