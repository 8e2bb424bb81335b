from unittest import mock

import pytest
import torch

from atlas_gym.agents.engines.engine import Request
from atlas_gym.agents.engines.hf_transformers import TransformersEngine
from atlas_gym.agents.models.memory import MemoryFull, ModelTooLarge, memory_needed, require_memory
from atlas_gym.agents.models.policy import POLICY
from atlas_gym.trainers.dpo.train import TrainJob, train
from tests.tiny_model import save_tiny_model, tuned_policy
from tests.trainers.small_phases import PAIRS, SETTINGS


def test_weights_twice_where_they_are_merged_adapters_and_keys_and_values_are_counted(tmp_path):
    folder = save_tiny_model(tmp_path)
    policy = tuned_policy(folder)
    weights = sum(p.nbytes for name, p in policy.base.named_parameters() if "lora" not in name)
    merged = sum(p.nbytes for name, p in policy.base.named_parameters() if "base_layer" in name)
    adapter = sum(tensor.nbytes for tensor in policy.tensors(POLICY).values())
    kept = 100 * 2 * 2 * 2 * 8 * 4  # tokens, keys and values, layers, key heads, width, bytes
    needed = memory_needed(folder, torch.float32, 4, 100)
    assert needed == pytest.approx(weights + merged + 8 * adapter + kept, rel=0.15)
    assert memory_needed(folder, torch.bfloat16, 4, 0) < memory_needed(folder, torch.float32, 4, 0)


def test_a_gpu_that_is_too_small_is_refused_in_words(tmp_path):
    folder = save_tiny_model(tmp_path)
    with mock.patch("torch.cuda.mem_get_info", return_value=(100_000, 0)):
        require_memory(folder, torch.float32, 4, "cpu")
        with pytest.raises(ModelTooLarge, match="smaller model"):
            require_memory(folder, torch.float32, 4, "cuda")


def test_a_gpu_that_runs_full_at_work_says_what_to_lower(tmp_path):
    policy = tuned_policy(save_tiny_model(tmp_path))
    full = torch.OutOfMemoryError("CUDA out of memory")
    engine = TransformersEngine(policy.base, policy.tokenizer)
    with mock.patch("torch.cuda.mem_get_info", return_value=(10**9, 8 * 10**9)):
        with (
            mock.patch("atlas_gym.trainers.dpo.train.log_likelihoods", side_effect=full),
            pytest.raises(MemoryFull, match=r"1\.0 of 8\.0 GB are free.*phase\.batch_size"),
        ):
            train(policy, TrainJob(tuple(PAIRS), SETTINGS, 0, (), phase=1, seed=0))
        with (
            mock.patch("atlas_gym.agents.engines.decoding.Batch._read", side_effect=full),
            pytest.raises(MemoryFull, match=r"exploration\.samples"),
        ):
            engine.generate([Request("x =", 1)])
