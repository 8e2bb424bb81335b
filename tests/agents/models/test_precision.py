"""bfloat16 where it is multiplied, float32 where it would be emulated."""

from pathlib import Path

import pytest
import torch

from atlas_gym.agents.models.layers import fitting_dtype

EMULATES = "flags\t\t: avx2 avx512f avx512bw avx512vl avx512_vnni fma"


@pytest.mark.parametrize(
    ("said", "dtype"),
    [
        (f"{EMULATES} avx512_bf16", torch.bfloat16),
        (f"{EMULATES} amx_bf16 amx_tile", torch.bfloat16),
        ("Features\t: fp asimd svebf16 bf16", torch.bfloat16),
        ("Features\t: fp asimd", torch.float32),
        (EMULATES, torch.float32),
        ("", torch.float32),
    ],
)
def test_a_processor_with_instructions_for_bfloat16_computes_in_it(
    tmp_path: Path, said: str, dtype: torch.dtype
) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\n{said}\n")
    assert fitting_dtype("cpu", info) is dtype


def test_a_processor_that_says_nothing_computes_in_float32(tmp_path: Path) -> None:
    assert fitting_dtype("cpu", tmp_path / "none") is torch.float32


def test_a_gpu_computes_in_bfloat16_whatever_the_processor(tmp_path: Path) -> None:
    assert fitting_dtype("cuda:0", tmp_path / "none") is torch.bfloat16
