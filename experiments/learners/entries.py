"""Who is on the leaderboard, in the order of its tables: controls without a model, with the model, then the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

from atlas_gym._version import __version__
from experiments.learners.controls import learn_expert, learn_rules, learn_start
from experiments.learners.grpo import learn_grpo
from experiments.learners.ledger import Change, Ledger, Outcome, Trial
from experiments.learners.openevolve import OPENEVOLVE
from experiments.learners.optimisers import learn_cma, learn_random, learn_tpe
from experiments.learners.own_runs import changes, learn_run
from experiments.learners.peer import Peer, learn_peer
from experiments.learners.shinka import SHINKA

START, SEARCH = "start", "search"
"""What improvements are counted from, and what learners are compared with."""


@dataclass(frozen=True)
class Entry:
    """A learner."""

    what: str
    """What it does, in a line."""
    version: str
    """Whose code, in which release."""
    learn: Callable[[Trial], Outcome]
    """Does a row."""
    changes: Callable[[Trial], Mapping[str, Change]] = lambda trial: {}
    """Settings that differ from its project's own."""
    envs: tuple[str, ...] = ()
    """The environments that it is for; empty: all."""


def _control(what: str, learn: Callable[[Ledger, int], None], package: str = "") -> Entry:
    """A learner in this process."""

    def do(trial: Trial) -> Outcome:
        with Ledger(trial) as ledger:
            learn(ledger, trial.seed)
            return ledger.outcome()

    return Entry(what, f"{package} {version(package)}" if package else _OURS, do)


def _run(what: str, method: str, config: str = "", **own: Any) -> Entry:
    """A method of this package; `own`: settings by names with `__` for a dot."""
    settings = {name.replace("__", "."): value for name, value in own.items()}
    learn = partial(learn_run, method=method, own=settings, config=config)
    return Entry(what, _OURS, learn, partial(changes, method=method, own=settings, config=config))


def _peer(what: str, peer: Peer) -> Entry:
    return Entry(what, f"{peer.name} {peer.version}", partial(learn_peer, peer), lambda trial: peer.changes)


_OURS = f"atlas-gym {__version__}"

ENTRIES: Mapping[str, Entry] = {
    START: _control("the starting program as it is", learn_start),
    "hand-written": _control("the best of the hand-written programs on the training task", learn_expert),
    "random search": _control("uniform points for the numbers of the start", learn_random),
    "CMA-ES": _control("evolution strategy on the numbers of the start", learn_cma, "cma"),
    "TPE": _control("tree-structured Parzen estimator on the numbers of the start", learn_tpe, "optuna"),
    "numeric": _run(
        "`search`, but edits are random numbers, drawn by a rule", "search", agent__styles={"numeric": 1.0}
    ),
    "rules": _control("the exploration supporter's rules alone", learn_rules),
    "best-of-n": _run("the model edits lines of the start, over and over", "best-of-n"),
    SEARCH: _run("the model edits lines of the best programs; no tuning", "search"),
    "GRPO": _control("the model is tuned while it rewrites the end of the start", learn_grpo, "trl"),
    "EvoTune, matched": _run("`search`, and DPO with a fixed reference; all else as ATLAS", "evotune"),
    "EvoTune, published": _run("whole functions, and DPO as published", "evotune", "evotune"),
    "EvoDPO": _run("`search`, and DPO with a reference that moves every phase", "evodpo"),
    "ATLAS": _run("EvoDPO with a gate, and three supporters that are rules", "atlas"),
    OPENEVOLVE.name: _peer("MAP-Elites on islands; the model rewrites programs", OPENEVOLVE),
    SHINKA.name: _peer("islands and an archive; the model rewrites programs", SHINKA),
}
"""By name, in the order of the tables: controls without a model, then the model without tuning, tuned, the peers."""
