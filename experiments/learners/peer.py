"""Other projects' learners: installed into an environment of their own, started, and stopped when the budget is spent.

A peer gets a folder with the starting program, a file whose `evaluate` asks the referee, and its configuration; then it
runs as it comes, with its own loop and prompts. Its environment holds what its lock file says and nothing of ours:
programs are scored, and tokens counted, on this side (`referee`). What each is set to, started with and asked by is a
file in `peers/`, in which `$name` stands for one of the `facts` of a row.
"""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml

from atlas_gym.agents.engines.llama_server import MODEL, LlamaServer
from atlas_gym.agents.models.embedded import fetch_gguf
from atlas_gym.experiments.learners.changes import Change, changes_between, nest
from atlas_gym.experiments.learners.ledger import Ledger, Outcome, Trial
from atlas_gym.experiments.learners.referee import referee
from atlas_gym.trainers.store.plain import merge, read_mapping

START, END = "# EVOLVE-BLOCK-START", "# EVOLVE-BLOCK-END"
"""Between these comments peers may write."""
SLOTS, CONTEXT, TOKENS = 16, 4096, 384
"""Requests that the model's server answers at a time; tokens of prompt and answer together; of an answer, at most."""
SERVER, LLAMA_CPP = "(the model's server)", "llamacpp"
"""The row of a peer's settings that says what serves the model; what does unless one is named."""
_SETTLE_S = 10.0
"""A peer whose budget is spent has so long to evaluate what it was last given."""


@dataclass(frozen=True)
class Peer:
    """Another project's learner."""

    name: str
    """As in tables."""
    version: str
    """The release."""
    about: str
    """What it does, in a line."""
    lock: Path
    """Requirements with versions, the project among them."""
    settings: Mapping[str, Mapping[str, Any]]
    """What is set otherwise than the project does, by dotted name: `value`, and `why`."""
    given: Mapping[str, Any]
    """What the row says, in the project's own settings."""
    defaults: str
    """A program for its Python that prints the project's own configuration as JSON."""
    evaluation: str
    """Its evaluation file."""
    command: Sequence[str]
    """What its Python is to be started with, in the folder of its files."""
    unconfined: str = ""
    """An evaluation file that scores the default bandit itself with `play_bare`, for `benchmarks.peers`."""


def read_peer(name: str) -> Peer:
    """One of those in `peers/`."""
    path = Path(__file__).parent / "peers" / f"{name}.yaml"
    return Peer(lock=path.with_suffix(".txt"), **read_mapping(path, "the peer"))


def facts(trial: Trial, url: str, model: str) -> dict[str, Any]:
    """What a peer's file may name: the row, the referee's address, what the model's server calls the model."""
    row = {"budget": trial.budget, "generations": trial.budget + 1, "seed": trial.seed}
    server = {"url": url, "model": model, "slots": SLOTS, "cores": 4 * SLOTS, "tokens": TOKENS}
    return {**row, **server, "task": trial.task().describe()}


def fill(value: Any, known: Mapping[str, Any]) -> Any:
    """The value with facts for their names; a text that is a name and nothing else becomes the fact itself."""
    if isinstance(value, Mapping):
        return {key: fill(item, known) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, known) for item in value]
    if not isinstance(value, str):
        return value
    return known[value[1:]] if value[:1] == "$" and value[1:] in known else Template(value).substitute(known)


def configuration(peer: Peer, known: Mapping[str, Any]) -> dict[str, Any]:
    """What a peer's configuration file holds."""
    own = {name: setting["value"] for name, setting in peer.settings.items()}
    return nest(fill({**peer.given, **own}, known))


def prepare(peer: Peer, known: Mapping[str, Any], start: str, folder: Path) -> None:
    """Write a peer's configuration, starting program and evaluation file into a folder."""
    initial = f"{START}\n{start.rstrip()}\n{END}\n"
    config = yaml.safe_dump(configuration(peer, known))
    evaluation = fill(peer.evaluation, known)
    for name, text in {"config.yaml": config, "initial.py": initial, "evaluate.py": evaluation}.items():
        (folder / name).write_text(text, encoding="utf-8")


def changes(peer: Peer, trial: Trial) -> dict[str, Change]:
    """How a row's configuration differs from what the peer's own Python says is its default.

    Raises:
        RuntimeError: the peer cannot be installed.
    """
    usual = json.loads(_do([str(environment(peer, trial.environments)), "-c", peer.defaults]))
    why = {name: setting["why"] for name, setting in peer.settings.items()}
    here = merge(usual, configuration(peer, facts(trial, "", MODEL)))
    found = changes_between(here, usual, why, given=peer.given)
    server = served(trial.model_url)["owned_by"] if trial.model_url else LLAMA_CPP
    return {SERVER: Change(server, "a hosted model", "the model of all learners"), **found}


def environment(peer: Peer, folder: Path) -> Path:
    """The Python of the peer's environment, which is made at the first call and again when its lock file changes.

    Raises:
        RuntimeError: it cannot be installed; the message ends with pip's.
    """
    place = _place(peer, folder)
    python, stamp = place / "bin" / "python", place / "installed"
    if not stamp.exists():
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        try:
            _do([sys.executable, "-m", "venv", "--clear", "--without-pip", str(place)])
            _do([*pip, "--disable-pip-version-check", "--no-deps", "-r", str(peer.lock)])
        except RuntimeError as error:
            fix = "that takes a package index; name other --learners to do without it"
            raise RuntimeError(f"{peer.name} {peer.version} cannot be installed ({fix}): {error}") from error
        stamp.touch()
    return python.absolute()


def is_installed(peer: Peer, folder: Path) -> bool:
    """Whether the peer's environment is there."""
    return (_place(peer, folder) / "installed").exists()


def _place(peer: Peer, folder: Path) -> Path:
    return folder / f"{peer.lock.stem}-{hashlib.sha256(peer.lock.read_bytes()).hexdigest()[:12]}"


def _do(command: Sequence[str]) -> str:
    """What a command prints; RuntimeError if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def learn_peer(peer: Peer, trial: Trial) -> Outcome:
    """Let a peer spend the budget with the trial's model."""
    with contextlib.ExitStack() as stack:
        url = trial.model_url
        if url is None:
            url = stack.enter_context(LlamaServer(fetch_gguf(), SLOTS, CONTEXT)).base_url
        ledger = stack.enter_context(Ledger(trial, workers=2))
        run_peer(peer, trial, ledger, url)
    return ledger.outcome()


def served(url: str) -> dict[str, Any]:
    """What a server says of its first model: `id`, `owned_by`, …

    Raises:
        RuntimeError: it does not answer as OpenAI's would.
    """
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=30) as reply:
            return json.load(reply)["data"][0]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RuntimeError(f"no model is served at {url}/models ({error}); see --model-url") from error


def run_peer(peer: Peer, trial: Trial, ledger: Ledger, model_url: str) -> None:
    """Let a peer spend the ledger's budget; what it says goes to `log.txt` in the trial's folder.

    Raises:
        RuntimeError: it ended before a single candidate was asked for.
    """
    model, python = served(model_url)["id"], environment(peer, trial.environments)
    with referee(ledger, model_url) as url, (trial.folder / "log.txt").open("w") as log:
        known = facts(trial, url, model)
        prepare(peer, known, trial.start, trial.folder)
        process = subprocess.Popen(
            [str(python), *map(str, fill(peer.command, known))], cwd=trial.folder, stdout=log, stderr=log,
            env=os.environ | {"OPENAI_API_KEY": "none"}, start_new_session=True,
        )  # fmt: skip
        try:
            _watch(process, ledger)
        finally:
            _end(process)
    if not ledger.candidates:
        raise RuntimeError(
            f"{peer.name} asked for nothing and ended with {process.returncode}, see {log.name}"
        )


def _watch(process: subprocess.Popen, ledger: Ledger) -> None:
    """Return when the process has ended, or has spent its budget, got its answers and evaluated what came of them."""
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < _SETTLE_S:
        if not ledger.spent or ledger.under_way:
            idle_since = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
            return


def _end(process: subprocess.Popen) -> None:
    """The process and all that it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, sign)
            process.wait(timeout=5)
    process.wait()
