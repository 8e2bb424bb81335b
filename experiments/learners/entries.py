"""Who is on the leaderboard, in the order of its tables: controls without a model, with the model, then the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from atlas_gym._version import __version__
from atlas_gym.experiments.learners import grpo, own_runs, ppo_template
from atlas_gym.experiments.learners import peer as peers
from atlas_gym.experiments.learners.changes import Change
from atlas_gym.experiments.learners.controls import learn_expert, learn_rules, learn_start
from atlas_gym.experiments.learners.ledger import Ledger, Outcome, Trial
from atlas_gym.experiments.learners.optimisers import cma_changes, learn_cma, learn_random, learn_tpe
from atlas_gym.experiments.learners.peer import Peer, learn_peer, read_peer

Changes = Callable[[Trial], Mapping[str, Change]]

START, SEARCH = "start", "search"
"""What improvements are counted from, and what learners are compared with."""


@dataclass(frozen=True)
class Entry:
    """A learner."""

    what: str
    """What it does, in a line."""
    learn: Callable[[Trial], Outcome]
    """Does a row."""
    package: str = ""
    """The package whose code it is; empty: this one."""
    changes: Changes = lambda trial: {}
    """Settings that differ from its project's own."""
    peer: Peer | None = None
    """The project with an environment of its own, if it is one."""

    @property
    def version(self) -> str:
        """Whose code, in which release."""
        if self.peer:
            return f"{self.peer.name} {self.peer.version}"
        try:
            return f"{self.package} {version(self.package)}" if self.package else f"atlas-gym {__version__}"
        except PackageNotFoundError:
            return f"{self.package}, which is missing"


def _control(
    what: str, learn: Callable[[Ledger, int], None], package: str = "", changes: Changes = lambda trial: {}
) -> Entry:
    """A learner in this process."""

    def do(trial: Trial) -> Outcome:
        with Ledger(trial) as ledger:
            learn(ledger, trial.seed)
        return ledger.outcome()

    return Entry(what, do, package, changes)


def _run(what: str, method: str, config: str = "", own: Mapping[str, Any] | None = None) -> Entry:
    """A method of this package; `own`: settings by their dotted names."""
    told: dict[str, Any] = {"method": method, "own": own or {}, "config": config}
    return Entry(what, partial(own_runs.learn_run, **told), changes=partial(own_runs.changes, **told))


def _peer(peer: Peer) -> Entry:
    return Entry(peer.about, partial(learn_peer, peer), changes=partial(peers.changes, peer), peer=peer)


ENTRIES: Mapping[str, Entry] = {
    START: _control("the starting program as it is", learn_start),
    "hand-written": _control("the best of the hand-written programs on the training task", learn_expert),
    "random search": _control("uniform points for the numbers of the template", learn_random),
    "CMA-ES": _control("evolution strategy on the numbers of the template", learn_cma, "cma", cma_changes),
    "TPE": _control("tree-structured Parzen estimator on the numbers of the template", learn_tpe, "optuna"),
    "PPO": _control(
        "policy gradients on the numbers of the template",
        ppo_template.learn_ppo,
        "stable-baselines3",
        ppo_template.changes,
    ),
    "numeric": _run(
        "`search`, but edits are random numbers, drawn by a rule",
        "search",
        own={"agent.styles": {"numeric": 1.0}},
    ),
    "rules": _control("the exploration supporter's rules alone", learn_rules),
    "best-of-n": _run("the model edits lines of the start, over and over", "best-of-n"),
    SEARCH: _run("the model edits lines of the best programs; no tuning", "search"),
    "GRPO": _control(
        "the model is tuned while it rewrites the end of a line of the start",
        grpo.learn_grpo,
        "trl",
        grpo.changes,
    ),
    "EvoTune, matched": _run("`search`, and DPO with a fixed reference; all else as ATLAS", "evotune"),
    "EvoTune, published": _run("whole functions, and DPO as published", "evotune", "evotune"),
    "EvoDPO": _run("`search`, and DPO with a reference that moves every phase", "evodpo"),
    "ATLAS": _run("EvoDPO with a gate, and three supporters that are rules", "atlas"),
    **{peer.name: _peer(peer) for peer in map(read_peer, ("openevolve", "shinka", "llm4ad"))},
}
"""By name, in the order of the tables: controls without a model, then the model without tuning, tuned, the peers."""
