"""Other projects' learners: installed into an environment of their own, started, and stopped when the budget is spent.

A peer gets a folder with the starting program, a file whose `evaluate` asks the referee, and its configuration; then it
runs as it comes, with its own loop and prompts. Its environment holds what its lock file says and nothing of ours:
programs are scored, and tokens counted, on this side (`referee`).
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agents.engines.llama_server import MODEL, LlamaServer, fetch_gguf
from experiments.learners.changes import Change, changes_between, nest
from experiments.learners.ledger import Ledger, Outcome, Trial
from experiments.learners.referee import referee
from trainers.store.plain import merge

START, END = "# EVOLVE-BLOCK-START", "# EVOLVE-BLOCK-END"
"""Between these comments both peers may write."""
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
    lock: Path
    """Requirements with versions, the project among them."""
    settings: Mapping[str, tuple[Any, str]]
    """What is set otherwise than the project does, by dotted name, and why."""
    given: Callable[["Order"], Mapping[str, Any]]
    """What the order says, in the project's own settings."""
    defaults: str
    """A program for its Python that prints the project's own configuration as JSON."""
    evaluation: str
    """Its evaluation file; `{url}` is the referee's address."""
    command: Callable[["Order"], Sequence[str]]
    """What its Python is to be started with, in the folder of its files."""


@dataclass(frozen=True)
class Order:
    """What a peer is asked to do."""

    trial: Trial
    """The task and its start, the candidates, the seed."""
    url: str
    """The referee's address."""
    model: str
    """What the model's server calls the model."""


def configuration(peer: Peer, order: Order) -> dict[str, Any]:
    """What a peer's configuration file holds."""
    return nest({**peer.given(order), **{name: value for name, (value, _) in peer.settings.items()}})


def prepare(peer: Peer, order: Order, folder: Path) -> None:
    """Write a peer's configuration, starting program and evaluation file into a folder."""
    start = f"{START}\n{order.trial.start.rstrip()}\n{END}\n"
    evaluation = peer.evaluation.format(url=order.url)
    config = yaml.safe_dump(configuration(peer, order))
    for name, text in {"config.yaml": config, "initial.py": start, "evaluate.py": evaluation}.items():
        (folder / name).write_text(text, encoding="utf-8")


def changes(peer: Peer, trial: Trial) -> dict[str, Change]:
    """How a row's configuration differs from what the peer's own Python says is its default.

    Raises:
        RuntimeError: the peer cannot be installed.
    """
    usual = json.loads(_do([str(environment(peer, trial.environments)), "-c", peer.defaults]))
    order = Order(trial, "", MODEL)
    why = {name: reason for name, (_, reason) in peer.settings.items()}
    here = merge(usual, configuration(peer, order))
    found = changes_between(here, usual, why, given=peer.given(order))
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
        order = Order(trial, url, model)
        prepare(peer, order, trial.folder)
        process = subprocess.Popen(
            [str(python), *peer.command(order)], cwd=trial.folder, stdout=log, stderr=log,
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
