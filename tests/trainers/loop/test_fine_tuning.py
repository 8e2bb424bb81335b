"""What a phase leaves in the store where there was nothing to train on."""

import pytest

from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.trainers.loop.atlas import take_phase
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.loop.fine_tuning import Tuning
from atlas_gym.trainers.store.store import RunStore

CALL = SupporterCall("strategist", "rules", "", ("phase", 1), "ok")


@pytest.mark.parametrize(
    ("idle", "stored"), [("", ["strategist"]), ("exploration brought no improvement", [])]
)
def test_a_phase_without_pairs_keeps_the_consultation_that_it_has_cost(tmp_path, monkeypatch, idle, stored):
    with RunStore(tmp_path) as store:
        tuning = Tuning.__new__(Tuning)
        tuning.store, tuning.config = store, load_config(None, {})
        tuning.advisers = type("Advisers", (), {"calls": [CALL]})()  # as they are after an earlier phase, too
        for name, does in {
            "restore": lambda number: False,
            "idle": lambda number: idle,
            "buffer": lambda *_: ([], []),
            "examples": lambda *_: (None, []),
            "why_nothing": lambda *_: "nothing improves",
        }.items():
            monkeypatch.setattr(tuning, name, does, raising=False)
        take_phase(tuning, 1)
        assert store.phases() == [{"phase": 1, "round": 8, "skipped": idle or "nothing improves"}]
        assert [call["role"] for call in store.supporter_calls()] == stored
