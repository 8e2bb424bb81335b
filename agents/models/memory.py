"""What a model takes of a GPU's memory, estimated from its folder before anything is loaded."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from atlas_gym.agents.models.loading import ModelMissing

_ADAPTERS = 8
"""Float32 copies of an adapter that a phase holds: policy, reference, checkpoints, gradients and the optimiser's."""
_SHARE = 0.9
"""How much of the free memory may be planned for. The rest is what libraries take."""


class ModelTooLarge(ModelMissing):
    """The model does not fit into the GPU's memory; the message says what helps."""


class MemoryFull(RuntimeError):
    """The GPU's memory ran full at work; the message says what helps."""


@contextmanager
def telling_what_helps(remedy: str) -> Iterator[None]:
    """Within the block a GPU whose memory is full raises :class:`MemoryFull` with this remedy."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        free, total = torch.cuda.mem_get_info()
        raise MemoryFull(
            f"the GPU's memory is full ({free / 1e9:.1f} of {total / 1e9:.1f} GB are free): {remedy}"
        ) from error


def token_bytes(config: dict[str, int], itemsize: int) -> int:
    """Bytes of a token's keys and values in all layers."""
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return 2 * config["num_hidden_layers"] * heads * width * itemsize


def memory_needed(folder: Path, dtype: torch.dtype, rank: int, tokens: int) -> int:
    """Bytes that weights, what they were before an adapter of this rank was merged, adapters, and keys and values of so
    many tokens take at least."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = config.get("text_config", config)
    stored = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    weights = weights * dtype.itemsize // getattr(torch, stored).itemsize
    hidden, wide = config["hidden_size"], config.get("intermediate_size") or 4 * config["hidden_size"]
    unmerged = weights - config["vocab_size"] * hidden * dtype.itemsize  # all but the embedding is merged
    adapter = 4 * rank * config["num_hidden_layers"] * (8 * hidden + 3 * (hidden + wide))
    return weights + unmerged + _ADAPTERS * adapter + tokens * token_bytes(config, dtype.itemsize)


def require_memory(folder: Path, dtype: torch.dtype, rank: int, device: str) -> None:
    """Raise :class:`ModelTooLarge` if a GPU cannot hold the model and write a few samples with it."""
    if torch.device(device).type != "cuda":
        return
    free, needed = torch.cuda.mem_get_info(device)[0], memory_needed(folder, dtype, rank, tokens=16_384)
    if needed > _SHARE * free:
        raise ModelTooLarge(
            f"the model in {folder} takes about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of the GPU are free: "
            "take a smaller model or a larger GPU, end what else uses this one, or set a smaller lora.rank"
        )
