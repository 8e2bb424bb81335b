"""A run of the main loop in seconds: its configuration, its model's menu of completions, and what it leaves."""

import pytest

import atlas_gym.agents.engines.hf_transformers
from atlas_gym import make_task
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.loop.atlas import AtlasRun
from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.loop.observer import Observer
from atlas_gym.trainers.store.store import RunStore
from tests.secret import secret_is
from tests.tiny_model import save_tiny_model
from tests.trainers.menu import MenuEngine

TASK = {"horizon": 60, "replicas": 1}


class Watcher(Observer):
    """Writes down what it is told; interrupts the run at an event, as Ctrl-C would."""

    def __init__(self, interrupt_at=None):
        self.events, self._interrupt_at = [], interrupt_at

    def _note(self, *event):
        self.events.append(event)
        if event == self._interrupt_at:
            raise KeyboardInterrupt

    def seeded(self, score, round_, rounds):
        self._note("seeded", round_, rounds)

    def round(self, summary, best):
        self._note("round", summary["round"])

    def exam(self, phase, exams):
        self._note("exam", phase)

    def phase(self, result):
        self._note("phase", result["phase"])

    def finished(self, summary):
        self._note("finished")


@pytest.fixture(scope="module", autouse=True)
def menu():
    """Completions from the menu, for a start with a constant that supporters can vary, and always the same bandits:
    under some secrets nothing of the menu improves, and no phase finds a pair."""
    starts = make_task("ATLAS-Bandit-v0").starts
    weighted = starts["scratch"].replace("= context @ theta", "= 0.5 * context @ theta")
    with secret_is("of a whole run"), pytest.MonkeyPatch.context() as patch:
        patch.setitem(starts, "scratch", weighted)
        patch.setattr(atlas_gym.agents.engines.hf_transformers, "TransformersEngine", MenuEngine)
        yield


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> RunConfig:
    """Two phases between three rounds, behind a gate that refuses nothing."""
    model = save_tiny_model(tmp_path_factory.mktemp("tiny"))
    return load_config(None, {
        "method": "atlas", "model": str(model), "device": "cpu", "torch_threads": 1, "tracking": "off",
        "env_args": TASK, "start": "scratch", "rounds": 3, "phase_every": 1, "skip_idle_phases": False,
        "exploration": {"islands": 3, "samples": 6, "writers": {"agent": 2, "supporter": 1}, "by_yield": False},
        "held_out_seeds": 2,
        "pairs": {"count": 8, "length_ratio": 0.0}, "lora": {"rank": 4, "alpha": 8},
        "phase": {"learning_rate": 0.01, "epochs": 1, "batch_size": 4, "target_kl": 0.0, "max_tokens": 4096},
        "gate": {"min_gain": -2.0, "max_kl": 1e3, "standard_errors": 0.0, "prompts": 2, "samples": 4},
        "exam": {"samples": 3, "prompts": 2, "seeds": 2, "instances": [{"start": "named"}]},
    })  # fmt: skip


def run(config, folder, observer=None):
    with RunStore(folder) as store, AtlasRun(config, store, [observer] if observer else []) as atlas:
        return atlas.run()


def contents(folder):
    """All that a run decided: without times, which nothing is decided by."""
    with RunStore.open_readonly(folder) as store:
        phases = [{k: v for k, v in phase.items() if k != "seconds"} for phase in store.phases()]
        pairs = [
            (phase["phase"], PreferencePair(**pair))
            for phase in phases
            for pair in store.phase_pairs(phase["phase"])
        ]
        calls = [(call["round"], call["phase"], call["role"]) for call in store.supporter_calls()]
        rounds = range(store.last_round() + 1)
        candidates = [record for round_ in rounds for record in store.round_candidates(round_)]
        return candidates, pairs, phases, store.exams(), calls
