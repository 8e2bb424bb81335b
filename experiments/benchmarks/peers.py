"""Candidates a second, end to end, of OpenEvolve, ShinkaEvolve and our search: one model's server for all.

    python -m atlas_gym.experiments.benchmarks.peers --seconds 120

Peers run twice, with their own evaluator and with our confined one; the rest of each is as on the leaderboard. Their
own evaluators run whatever the model writes **in a process that may do all that you may**. All play the default bandit,
one after the other, for so many seconds each. Counted are the model's answers that came in time. Evaluations run beside
the answering, so that an evaluator shows only where it is slower than the model.
"""

import argparse
import contextlib
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

import atlas_gym
from atlas_gym.agents.engines.llama_server import LlamaServer
from atlas_gym.agents.models.embedded import fetch_gguf
from atlas_gym.arguments import Parser, seconds
from atlas_gym.experiments.benchmarks.side_by_side import show
from atlas_gym.experiments.learners.ledger import Ledger, Point, Trial
from atlas_gym.experiments.learners.own_runs import learn_run
from atlas_gym.experiments.learners.peer import CONTEXT, SLOTS, Peer, environment, read_peer, run_peer, served

_UNLIMITED = 10**6
_HERE = [str(Path(atlas_gym.__file__).parents[1]), sysconfig.get_paths()["purelib"]]
_BARE = f"""import sys
sys.path += {_HERE!r}
from atlas_gym import make_task
from atlas_gym.tasks.bandit.bare import play_bare
"""


class _Answers(Ledger):
    """Counts answers, too, and leaves out what comes late."""

    answers = 0

    def written(self, tokens: int, prompt_tokens: int = 0) -> None:
        if not self.spent:
            self.answers += 1
            super().written(tokens, prompt_tokens)


def of_peer(peer: Peer, trial: Trial, url: str) -> Point:
    """How far a peer came, its candidates being the model's answers; its environment is made beforehand."""
    environment(peer, trial.environments)
    ledger = _Answers(trial, workers=2)
    with ledger:
        run_peer(peer, trial, ledger, url)
    return replace(ledger.point(), candidates=ledger.answers, seconds=trial.seconds or ledger.seconds)


def of_search(trial: Trial, url: str) -> Point:
    """The same of our search, whose start-up is not counted."""
    server = {"base_url": url, "model": served(url)["id"], "concurrency": SLOTS}
    own = {"backend.name": "openai", **{f"backend.openai.{name}": value for name, value in server.items()}}
    return learn_run(trial, "search", own).curve[-1]


def main(arguments: list[str] | None = None) -> None:
    """Run all and print the table."""
    parser = Parser(prog="python -m atlas_gym.experiments.benchmarks.peers", description=__doc__)
    parser.add_argument("--seconds", type=seconds, default=120, help="of each (default 120)")
    parser.add_argument(
        "--model-url", help="the model's server; default: llama.cpp's with the embedded model"
    )
    parser.add_argument("--environments", type=Path, default=Path("runs/peers"))
    options = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        url = options.model_url or stack.enter_context(LlamaServer(fetch_gguf(), SLOTS, CONTEXT)).base_url
        server = served(url)["owned_by"]
        found = {name: _run(of, options, url) for name, of in _contenders().items()}
    frame = pd.DataFrame(list(found.values()), index=list(found)).drop(columns="best")
    frame.insert(0, "candidates a second", (frame.candidates / frame.seconds).round(3))
    show(f"one server for all: {server}", frame)


def _contenders() -> dict[str, Callable[[Trial, str], Point]]:
    found: dict[str, Callable[[Trial, str], Point]] = {"our search, confined": of_search}
    for peer in map(read_peer, ("openevolve", "shinka")):
        found[f"{peer.name}, its own evaluator"] = partial(
            of_peer, replace(peer, evaluation=_BARE + peer.unconfined)
        )
        found[f"{peer.name}, our confined one"] = partial(of_peer, peer)
    return found


def _run(of: Callable[[Trial, str], Point], options: argparse.Namespace, url: str) -> Point:
    with tempfile.TemporaryDirectory() as folder:
        limits = (_UNLIMITED, None, options.seconds)
        return of(
            Trial("ATLAS-Bandit-v0", 0, *limits, folder=Path(folder), environments=options.environments), url
        )


if __name__ == "__main__":
    main()
