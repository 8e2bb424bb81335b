"""Adapters in a server: loaded after each phase, loaded again after a restart, unloaded at the end."""

import pytest
import torch

from atlas_gym.agents.engines.completions import OpenAIBackend
from atlas_gym.agents.engines.engine import BackendError, Sampling
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.agents.population.candidate import Proposal
from tests.agents.completions_server import settings, write
from tests.agents.supporters import server as s
from tests.agents.tiny import character_model, character_tokenizer


class LoraServer:
    """Answers like a vLLM server: knows the model and the adapters that were loaded, and nothing else."""

    def __init__(self, forgets_after=10**9):
        self.loaded, self.calls, self.asked, self.left = {}, [], [], forgets_after

    def __call__(self, received, send):
        body = received.body
        if "lora_path" in body:
            known = body["lora_name"] in self.loaded
            self.loaded[body["lora_name"]] = body["lora_path"]
            self.calls.append(("load", body["lora_name"]))
            return s.respond(b"{}", "400 Bad Request" if known else "200 OK")(received, send)
        if "lora_name" in body:
            self.calls.append(("unload", body["lora_name"]))
            self.loaded.pop(body["lora_name"], None)
            return s.respond(b"Success")(received, send)
        self.left -= 1
        if self.left == 0:
            self.loaded.clear()  # restarted
        known = body["model"] == "m" or body["model"] in self.loaded
        self.asked.append(body["model"])
        return (write(" 1") if known else s.respond(b"{}", "404 Not Found"))(received, send)


@pytest.fixture(scope="module")
def policy():
    return Policy(character_model(), character_tokenizer(), LoraSettings(rank=2))


def tune(policy, seed):
    source = torch.Generator().manual_seed(seed)
    for name, tensor in policy.tensors(POLICY).items():
        if ".lora_B." in name:
            tensor.data.copy_(torch.randn(tensor.shape, generator=source))


def serving(server, policy, folder, **options):
    lora = settings(server.base_url, lora_loading="vllm", **options)
    return OpenAIBackend(lora, Sampling(), folder, policy)


def test_each_phase_s_adapter_is_loaded_into_the_server_and_the_last_one_unloaded(policy, tmp_path):
    vllm = LoraServer()
    policy.reset(POLICY, 0)
    with s.serve(vllm) as server:
        backend = serving(server, policy, tmp_path)
        names = []
        for phase in range(3):
            if phase:
                tune(policy, phase)
            for adapter in (POLICY, POLICY, REFERENCE):
                with backend.serving(adapter) as generator:
                    generator.generate([Proposal("a", 1)])
            names.append(f"atlas-{policy.digest(POLICY)[:16]}")
        backend.close()
    one, two = names[1:]
    assert vllm.asked == ["m"] * 3 + [one, one, "m", two, two, "m"]
    assert vllm.calls == [("load", one), ("unload", one), ("load", two), ("unload", two)]
    assert (tmp_path / two / "adapter_model.safetensors").exists()


def test_a_restarted_server_gets_its_adapter_back(policy, tmp_path):
    vllm = LoraServer(forgets_after=4)
    tune(policy, 5)
    with s.serve(vllm) as server:
        backend = serving(server, policy, tmp_path)
        with backend.serving(POLICY) as generator:
            (row,) = generator.generate([Proposal("a", 12)])
        backend.close()
    assert [c.text for c in row] == [" 1\n"] * 12


def test_a_server_that_cannot_load_adapters_is_an_error(policy, tmp_path):
    tune(policy, 6)
    with s.serve(s.respond(b"{}", "400 Bad Request")) as server:
        backend = serving(server, policy, tmp_path)
        with pytest.raises(BackendError, match="--enable-lora"), backend.serving(POLICY):
            pass
