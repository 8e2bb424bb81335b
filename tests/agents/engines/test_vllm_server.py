"""A real vLLM server (in its own environment) that is given each phase's adapter over HTTP."""

import os
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager, suppress

import pytest
import torch

from atlas_gym.agents.engines.serving import open_backend
from atlas_gym.agents.engines.settings import BackendSettings, OpenAISettings
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings
from tests.agents.engines.vllm_questions import PYTHON, REQUESTS, SAMPLING, firsts, model, tune

assert model  # a fixture

ENVIRONMENT = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
}  # fmt: skip


@contextmanager
def served(folder, log):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--port", str(port),
        "--host", "127.0.0.1", "--served-model-name", "tiny", "--dtype", "float32", "--max-model-len", "256",
        "--enforce-eager", "--enable-lora", "--max-lora-rank", "8", "--max-cpu-loras", "2",
    ]  # fmt: skip
    process = subprocess.Popen(command, env=os.environ | ENVIRONMENT, stdout=log, stderr=log)
    try:
        for _ in range(3000):
            assert process.poll() is None, "the server ended by itself"
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_adapters_follow_the_policy_into_a_running_server(model, tmp_path):
    if not PYTHON.exists():
        pytest.skip(f"{PYTHON} does not exist: make vllm")
    policy = Policy.load(model, dtype=torch.float32, lora=LoraSettings(rank=4))
    here = open_backend(BackendSettings(), SAMPLING, model="", folder=tmp_path, policy=policy)
    with open(tmp_path / "log", "wb") as log, served(model, log) as base_url:
        options = OpenAISettings(base_url, "tiny", lora_loading="vllm", wait_s=60.0)
        settings = BackendSettings("openai", openai=options)
        there = open_backend(settings, SAMPLING, model="", folder=tmp_path, policy=policy)
        seen = []
        for seed in (0, 1, 2):
            tune(policy, seed)
            seen.append(firsts(there))
            assert seen[-1] == firsts(here)
            assert firsts(there, REFERENCE) == firsts(here, REFERENCE)
        assert seen[0] != seen[1] != seen[2]
        with there.serving(POLICY) as generator:
            rows = generator.generate(REQUESTS)
        there.close()
    for request, row in zip(REQUESTS, rows, strict=True):
        assert len(row) == request.n
        for completion in row:
            assert "\n" not in completion.text[:-1] or request.stop == "function"
            if request.avoid is not None and completion.finished:
                assert completion.text.rstrip("\n") != request.avoid.rstrip("\n")
