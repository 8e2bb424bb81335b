"""Adapters on disk: a folder in PEFT's own layout, written at once or not at all, checked when read.

`adapter_model.safetensors` and `adapter_config.json` are what `PeftModel.from_pretrained` and vLLM expect.
The digest of the tensors is kept in the safetensors header, so that a damaged or truncated file is an error
that says what to do, not a policy that behaves strangely.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from peft import LoraConfig
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

WEIGHTS = "adapter_model.safetensors"


class AdapterError(RuntimeError):
    """An adapter folder that is missing, damaged, made for another model, or cannot be written."""


def digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over names, shapes, types and bits of the tensors."""
    state = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        state.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        state.update(tensor.view(torch.uint8).numpy().tobytes())
    return state.hexdigest()


def write_adapter(folder: Path, tensors: Mapping[str, torch.Tensor], config: LoraConfig) -> str:
    """Write an adapter folder by one rename, replacing an older one; returns the digest of the tensors. A process
    killed at any moment leaves the old folder, the new one, or a `*.old`. Raises `AdapterError` if there is no room."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    checksum = digest(content)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed here
        draft.mkdir()
        try:
            save_file(content, draft / WEIGHTS, metadata={"format": "pt", "digest": checksum})
            config.save_pretrained(str(draft))
            _flush(draft)
            # A directory cannot be renamed onto a full one, so the old one steps aside.
            retired = folder.with_name(folder.name + ".old")
            shutil.rmtree(retired, ignore_errors=True)
            if folder.exists():
                folder.rename(retired)
            draft.rename(folder)
            shutil.rmtree(retired, ignore_errors=True)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        raise AdapterError(
            f"the adapter cannot be written to {folder} ({error}); make room there and resume the run: what was stored "
            "before is not lost"
        ) from error
    return checksum


def read_adapter(folder: Path, expected: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors of an adapter folder, which must have the names and shapes of `expected` and an intact
    digest."""
    path = folder / WEIGHTS
    if not path.is_file():
        raise AdapterError(f"there is no adapter at {folder} ({WEIGHTS} is missing); check the path")
    remedy = f"delete {folder} and run the phase that made it again (or copy it anew from where it came)"
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise AdapterError(f"{path} is damaged ({error}); {remedy}") from error
    found, wanted = ({(name, t.shape) for name, t in own.items()} for own in (tensors, expected))
    wrong = sorted({name for name, _ in found ^ wanted})
    if wrong:
        raise AdapterError(
            f"the adapter at {folder} was made for another base model or other LoRA settings ({len(wrong)} "
            f"tensors differ, the first is {wrong[0]}); load it with the model and settings it was trained with"
        )
    if metadata.get("digest", digest(tensors)) != digest(tensors):
        raise AdapterError(f"{path} is damaged (its digest does not match its content); {remedy}")
    return tensors


def _flush(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
