"""The tutorial "Your own model behind an API": its files and commands in an empty folder, against a real server."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from atlas_gym.trainers.store.store import RunStore
from tests.agents.llama_server import LlamaServer, fetch_gguf
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "own-model.md"
ATLAS = Path(sys.executable).parent / "atlas"


@pytest.fixture
def server():
    pytest.importorskip("xllamacpp", reason="needs the extra `dev`")
    with LlamaServer(fetch_gguf()) as server:
        yield server


def commands():
    """The page's `atlas` commands; what comes after the first run is said of runs that the reader makes."""
    lines = [line for block in blocks(PAGE) if block.language == "sh" for line in block.text.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("atlas ") and "resume" not in line]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_from_nothing_to_a_better_program(server, tmp_path):
    for block in blocks(PAGE):
        if block.mark.startswith("file="):
            text = block.text.replace("https://api.example.com/v1", server.base_url)
            (tmp_path / block.mark.removeprefix("file=")).write_text(text)
    environment = {**os.environ, "MY_API_KEY": "a key", "WANDB_MODE": "disabled"}
    assert [words[0] for words in commands()] == ["check", "run", "report", "evaluate"]
    for words in commands():
        done = subprocess.run(
            [str(ATLAS), *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    with RunStore.open_readonly(tmp_path / "first") as store:
        start, (best,) = store.start(), store.best_candidates(1)
    assert best.score > start.score
    assert best.origin == "agent"
    assert (tmp_path / "first" / "report.html").stat().st_size > 10_000
