"""The main job on every engine: the same code path, with real weights, phases included."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from atlas_gym.agents.engines.spending import total
from atlas_gym.trainers.store.store import RunStore, StoreError
from tests.agents.llama_server import LlamaServer, fetch_gguf

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.usefixtures("embedded_weights")

VLLM = ROOT / os.environ.get("VENV_VLLM", ".venv-vllm") / "bin" / "python"

SMALL = [
    "--rounds=3", "--phase_every=2", "--exploration.islands=3", "--exploration.samples=6", "--pairs.count=8",
    "--gate.samples=2", "--held_out_seeds=2", "--env_args.replicas=2", "--env_args.horizon=300",
    "--tracking=off", "--torch_threads=1", "--skip_idle_phases=false", "--supporters.exploration.form=off",
]  # fmt: skip
CANDIDATES = 3 + 3 * 3 * 6  # the start on three islands, then three rounds


def run(
    folder: Path, *settings: str, python: str | Path = sys.executable, config: Path | None = None
) -> subprocess.CompletedProcess:
    command = [str(python), "-m", "atlas_gym.experiments.run", "--folder", str(folder)]
    command += [*(["--config", str(config)] if config else []), *SMALL, *settings]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1100, check=False)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["transformers", "vllm"])
def test_three_rounds_and_a_phase(name, tmp_path):
    if name == "vllm" and not VLLM.exists():
        pytest.skip(f"{VLLM} does not exist: make vllm")
    done = run(tmp_path / "run", f"--backend.name={name}", python=VLLM if name == "vllm" else sys.executable)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with RunStore.open_readonly(tmp_path / "run") as store:
        records = list(store.candidates())
        (phase,) = store.phases()
    assert len({record.id for record in records}) == len(records) == CANDIDATES
    assert phase["policy_digest"] != phase["reference_digest"] or phase["promoted"]
    assert phase["loss"] > 0
    written = [record for record in records if record.origin == "agent"]
    # Non-copy decoding works in each engine: the untuned model alone copies more than half of the time.
    assert sum(record.is_copy for record in written) < 0.3 * len(written)
    assert any(record.passed and not record.is_copy for record in written)


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    pytest.importorskip("xllamacpp", reason="needs the extra `dev`")
    server = LlamaServer(fetch_gguf())
    server.start()
    yield server
    server.kill()


def behind(server: LlamaServer) -> list[str]:
    options = {
        "server.base_url": server.base_url, "server.model": "smollm2", "tokenizer": "embedded",
        "server.concurrency": 2, "server.wait_s": 60.0,
    }  # fmt: skip
    return [
        "--method=search",
        "--backend.name=openai",
        *(f"--backend.{k}={v}" for k, v in options.items()),
    ]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_search_with_a_server_that_is_killed_and_restarted(llama, tmp_path):
    finished = []
    thread = threading.Thread(target=lambda: finished.append(run(tmp_path / "run", *behind(llama))))
    thread.start()
    while thread.is_alive() and _units(tmp_path / "run") < 2:
        thread.join(0.2)
    llama.kill()
    thread.join(5)
    assert thread.is_alive(), finished
    llama.start()
    thread.join()
    (done,) = finished
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with RunStore.open_readonly(tmp_path / "run") as store:
        records = list(store.candidates())
    assert len({record.id for record in records}) == len(records) == CANDIDATES
    written = [record for record in records if record.origin == "agent"]
    assert sum(record.completion == "" for record in written) == 0
    assert any(record.passed and not record.is_copy for record in written)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_that_stays_away_ends_the_run_and_a_later_one_resumes_it(llama, tmp_path):
    folder = tmp_path / "run"
    llama.kill()
    done = run(folder, *behind(llama), "--backend.server.wait_s=1.0", "--rounds=1")
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "has given no usable answer for 1 s" in said
    assert "--resume" in said
    llama.start()
    command = [sys.executable, "-m", "atlas_gym.experiments.run", "--folder", str(folder), "--resume"]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert again.returncode == 0, again.stdout[-3000:]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_chat_endpoint_within_a_budget(llama, tmp_path):
    chat = {"max_tokens": 300, "budget_tokens": 10}
    own = {"backend": {"name": "chat", "server": {"base_url": llama.base_url, "model": "m"}, "chat": chat}}
    config, folder = tmp_path / "own.yaml", tmp_path / "run"
    config.write_text(yaml.safe_dump(own))
    stopped = run(folder, "--rounds=1", "--method=search", config=config)
    assert stopped.returncode == 1
    assert "the budget of 10 tokens" in " ".join(stopped.stdout.split())
    chat["budget_tokens"] = 0
    config.write_text(yaml.safe_dump(own))
    done = run(folder, "--resume", "--rounds=1", "--method=search", config=config)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    with RunStore.open_readonly(folder) as store:
        written = [record for record in store.candidates() if record.origin == "agent"]
    assert {record.style for record in written if record.island == 1} <= {"rewrite", "diff"}
    assert any(record.completion for record in written if record.island == 1)
    (spent,) = total(folder / "spending.jsonl").values()
    assert spent["requests"] > 1
    assert "tokens read" in " ".join(done.stdout.split())


def _units(folder: Path) -> int:
    try:
        with RunStore.open_readonly(folder) as store:
            return len(store.round_summaries())
    except StoreError:
        return 0  # not yet made
