from pathlib import Path

import pytest
import torch
from peft import PeftModel, get_peft_model_state_dict
from transformers import AutoModelForCausalLM

from atlas_gym.agents.models.adapters import WEIGHTS, AdapterError
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.models.settings import LoraSettings
from tests.tiny_model import save_tiny_model

IDS = torch.tensor([[5, 9, 100, 33, 7]])


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def folder(request, tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"), request.param)


@pytest.fixture
def policy(folder):
    dtype = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").dtype
    return Policy.load(folder, dtype=dtype, lora=LoraSettings(rank=4, alpha=8))


def disturb(policy: Policy, name: str, seed: int = 1) -> None:
    """Stand in for training: every tensor of the adapter gets large random values."""
    generator = torch.Generator().manual_seed(seed)
    for tensor in policy.tensors(name).values():
        tensor.data.normal_(0.0, 0.3, generator=generator)


def base_weights(policy: Policy) -> dict[str, torch.Tensor]:
    return {
        name: parameter.detach().clone()
        for name, parameter in policy.model.named_parameters()
        if "lora_" not in name
    }


def logits(policy: Policy, name: str) -> torch.Tensor:
    with policy.using(name) as model, torch.no_grad():
        return model(input_ids=IDS).logits.float()


def test_fresh_adapters_are_the_base_model_bit_for_bit(policy, folder):
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=policy.model.dtype).eval()
    with torch.no_grad():
        expected = base(input_ids=IDS).logits.float()
    assert torch.equal(logits(policy, POLICY), expected)
    assert torch.equal(logits(policy, REFERENCE), expected)


def test_adapters_are_float32_and_only_the_policy_is_trainable(policy):
    policy.add("candidate-1", copy_of=POLICY)
    with policy.using(REFERENCE):
        pass
    with policy.merged("candidate-1"):
        pass
    trainable = {name for name, parameter in policy.model.named_parameters() if parameter.requires_grad}
    assert trainable
    assert all(f".{POLICY}." in name and "lora_" in name for name in trainable)
    assert {tensor.dtype for tensor in policy.tensors(POLICY).values()} == {torch.float32}


def test_merging_generates_from_the_tuned_model_and_restores_every_bit(policy):
    disturb(policy, POLICY)
    before, tuned = base_weights(policy), logits(policy, POLICY)
    for _ in range(3):
        with policy.merged(POLICY) as model, torch.no_grad():
            assert not isinstance(model, PeftModel)
            merged = model(input_ids=IDS).logits.float()
        torch.testing.assert_close(
            merged, tuned, atol=1e-4 if policy.model.dtype == torch.float32 else 0.5, rtol=0.05
        )
    after = base_weights(policy)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(logits(policy, POLICY), tuned)


def test_the_base_is_restored_when_generation_fails(policy):
    disturb(policy, POLICY)
    before = base_weights(policy)
    with pytest.raises(KeyboardInterrupt), policy.merged(POLICY):
        raise KeyboardInterrupt
    after = base_weights(policy)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert logits(policy, POLICY).isfinite().all()


def test_copies_are_exact_and_independent(policy):
    disturb(policy, POLICY)
    policy.copy(POLICY, REFERENCE)
    assert policy.digest(POLICY) == policy.digest(REFERENCE)
    kept = policy.digest(REFERENCE)
    disturb(policy, POLICY, seed=2)
    assert policy.digest(REFERENCE) == kept != policy.digest(POLICY)


def test_reset_gives_the_base_model_and_follows_its_seed(policy):
    untouched = logits(policy, POLICY)
    state = torch.random.get_rng_state()
    digests = []
    for seed in (7, 7, 8):
        disturb(policy, POLICY)
        policy.reset(seed)
        assert torch.equal(logits(policy, POLICY), untouched)
        digests.append(policy.digest(POLICY))
    assert digests[0] == digests[1] != digests[2]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_saved_adapters_come_back_exactly_and_peft_reads_them(policy, folder, tmp_path):
    disturb(policy, POLICY)
    saved = policy.save(POLICY, tmp_path / "phase-1")
    assert policy.restore(REFERENCE, tmp_path / "phase-1") == saved == policy.digest(REFERENCE)
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=policy.model.dtype)
    theirs = PeftModel.from_pretrained(base, tmp_path / "phase-1").eval()
    read = get_peft_model_state_dict(theirs)
    assert read.keys() == policy.tensors(POLICY).keys()
    assert all(torch.equal(tensor, read[name]) for name, tensor in policy.tensors(POLICY).items())
    disturb(policy, POLICY, seed=2)
    assert policy.save(POLICY, tmp_path / "phase-1") != saved
    assert [path.name for path in tmp_path.iterdir()] == ["phase-1"]


def test_a_writer_that_dies_leaves_the_old_adapter(policy, tmp_path, monkeypatch):
    old = policy.save(POLICY, tmp_path / "adapter")
    disturb(policy, POLICY)

    def full_disk(*_args: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("atlas_gym.agents.models.adapters._flush", full_disk)
    with pytest.raises(AdapterError, match=r"no space.*make room there and resume"):
        policy.save(POLICY, tmp_path / "adapter")
    assert policy.restore(REFERENCE, tmp_path / "adapter") == old
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]


def damage(path: Path, how: str) -> None:
    content = bytearray((path / WEIGHTS).read_bytes())
    if how == "truncated":
        del content[len(content) // 2 :]
    else:
        content[-3] ^= 1
    (path / WEIGHTS).write_bytes(content)


@pytest.mark.parametrize("how", ["truncated", "one bit flipped"])
def test_a_damaged_adapter_is_an_error_that_names_the_remedy(policy, tmp_path, how):
    disturb(policy, POLICY)
    policy.save(POLICY, tmp_path / "adapter")
    damage(tmp_path / "adapter", how)
    before = policy.digest(REFERENCE)
    with pytest.raises(AdapterError, match=r"delete .* and run the phase that made it again"):
        policy.restore(REFERENCE, tmp_path / "adapter")
    assert policy.digest(REFERENCE) == before


def test_an_adapter_of_other_settings_or_nowhere_is_an_error(policy, folder, tmp_path):
    other = Policy.load(folder, dtype=policy.model.dtype, lora=LoraSettings(rank=2, alpha=4))
    other.save(POLICY, tmp_path / "rank-2")
    with pytest.raises(AdapterError, match="other LoRA settings"):
        policy.restore(POLICY, tmp_path / "rank-2")
    with pytest.raises(AdapterError, match="check the path"):
        policy.restore(POLICY, tmp_path / "nothing")


def test_seeds_decide_the_first_adapter_without_touching_the_global_generator(folder):
    state = torch.random.get_rng_state()
    digests = [Policy.load(folder, lora=LoraSettings(rank=2), seed=seed).digest(POLICY) for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_learner_leaves_the_adapter_in_use_as_it_was_found(policy):
    disturb(policy, POLICY)
    with torch.no_grad(), policy.learning():
        trained = policy.model(input_ids=IDS).logits
        with policy.using(REFERENCE) as model:
            assert not torch.equal(model(input_ids=IDS).logits, trained)
        assert torch.equal(policy.model(input_ids=IDS).logits, trained)
