"""The main job on every engine: the same code path, with real weights, phases included."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from atlas_gym.agents.engines.spending import total
from atlas_gym.trainers.store.store import RunStore
from tests.agents.llama_server import LlamaServer, fetch_gguf
from tests.experiments.cli.small_run import command, stored_rounds

ROOT = Path(__file__).parents[3]
VLLM = ROOT / os.environ.get("VENV_VLLM", ".venv-vllm") / "bin" / "python"
A_ROUND = 3 * 6  # on three islands, at most
UNTAUGHT = ("--skip_idle_phases=false", "--method=atlas-agent-alone")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.usefixtures("embedded_weights")]


def run(folder: Path, *settings: str, python: str | Path = sys.executable) -> subprocess.CompletedProcess:
    words = command(folder, *UNTAUGHT, *settings, python=python)
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=1100, check=False)


def written(folder: Path, done: subprocess.CompletedProcess) -> list:
    """What the agent wrote in a run that has come to its end, each candidate stored once."""
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with RunStore.open_readonly(folder) as store:
        records = list(store.candidates())
    assert len({record.id for record in records}) == len(records)
    own = [record for record in records if record.origin == "agent"]
    assert any(record.passed and not record.is_copy for record in own)
    return own


@pytest.mark.parametrize("name", ["transformers", "vllm"])
def test_three_rounds_and_a_phase(name, tmp_path):
    if name == "vllm" and not VLLM.exists():
        pytest.skip(f"{VLLM} does not exist: make vllm")
    python = VLLM if name == "vllm" else sys.executable
    own = written(tmp_path / "run", run(tmp_path / "run", f"--backend.name={name}", python=python))
    # Non-copy decoding works in each engine: the untuned model alone copies more than half of the time.
    assert sum(record.is_copy for record in own) < 0.3 * len(own)
    assert len(own) > A_ROUND
    with RunStore.open_readonly(tmp_path / "run") as store:
        (phase,) = store.phases()
    assert phase["policy_digest"] != phase["reference_digest"] or phase["promoted"]
    assert phase["steps"][0]["loss"] > 0


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    pytest.importorskip("xllamacpp", reason="needs the extra `dev`")
    server = LlamaServer(fetch_gguf())
    server.start()
    yield server
    server.kill()


def behind(server: LlamaServer) -> list[str]:
    where = {"base_url": server.base_url, "model": "smollm2", "concurrency": 2, "wait_s": 60.0}
    options = [f"--backend.server.{name}={value}" for name, value in where.items()]
    return ["--method=search", "--backend.name=openai", "--backend.tokenizer=embedded", *options]


def test_search_with_a_server_that_is_killed_and_restarted(llama, tmp_path):
    finished = []
    thread = threading.Thread(target=lambda: finished.append(run(tmp_path / "run", *behind(llama))))
    thread.start()
    while thread.is_alive() and stored_rounds(tmp_path / "run") < 1:
        thread.join(0.2)
    llama.kill()
    thread.join(5)
    assert thread.is_alive(), finished
    llama.start()
    thread.join()
    own = written(tmp_path / "run", finished[0])
    assert len(own) > A_ROUND
    assert all(record.completion for record in own)


def test_a_server_that_stays_away_ends_the_run_and_a_later_one_resumes_it(llama, tmp_path):
    llama.kill()
    done = run(tmp_path / "run", *behind(llama), "--backend.server.wait_s=1.0", "--rounds=1")
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "has given no usable answer for 1 s" in said
    assert "--resume" in said
    llama.start()
    again = run(tmp_path / "run")
    assert again.returncode == 0, again.stdout[-3000:]


def test_a_chat_endpoint_within_a_budget(llama, tmp_path):
    chat, folder = {"max_tokens": 300, "budget_tokens": 10}, tmp_path / "run"
    server = {"base_url": llama.base_url, "model": "m"}

    def attempt(*flags: str) -> subprocess.CompletedProcess:
        own = {"backend": {"name": "chat", "server": server, "chat": chat}}
        (tmp_path / "own.yaml").write_text(yaml.safe_dump(own))
        words = [*command(tmp_path / "new", *UNTAUGHT), "--config", str(tmp_path / "own.yaml")]
        words += ["--folder", str(folder), "--rounds=1", "--method=search"]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=1100, check=False)

    stopped = attempt()
    assert stopped.returncode == 1
    assert "the budget of 10 tokens" in " ".join(stopped.stdout.split())
    chat["budget_tokens"] = 0
    done = attempt()
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with RunStore.open_readonly(folder) as store:
        rewritten = [record for record in store.round_candidates(1, island=1) if record.origin == "agent"]
    assert {record.style for record in rewritten} <= {"rewrite", "diff"}
    assert any(record.completion for record in rewritten)
    (spent,) = total(folder / "spending.jsonl").values()
    assert spent["requests"] > 1
    assert "tokens read" in " ".join(done.stdout.split())
