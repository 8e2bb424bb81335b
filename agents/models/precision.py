"""Which floating-point type a model computes in, where nobody said.

bfloat16 halves the memory, and on GPUs and on processors with instructions for it the time. Other processors emulate
it, and multiply more slowly by far than in float32.
"""

import re
from pathlib import Path

import torch

_CPU_INFO = Path("/proc/cpuinfo")
_INSTRUCTIONS = re.compile(r"\b(amx_bf16|avx512_bf16|bf16)\b")
"""What the kernel calls them on x86-64, the last one on Arm."""


def fitting_dtype(device: str | torch.device, cpu_info: Path = _CPU_INFO) -> torch.dtype:
    """bfloat16, but float32 on a processor that would have to emulate it; `cpu_info` is what the kernel says of the
    processor."""
    if torch.device(device).type != "cpu":
        return torch.bfloat16
    known = cpu_info.read_text(encoding="utf-8") if cpu_info.is_file() else ""
    return torch.bfloat16 if _INSTRUCTIONS.search(known) else torch.float32
