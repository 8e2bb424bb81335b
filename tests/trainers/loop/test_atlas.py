"""What is asked of a run's starting programs before its first round."""

from types import SimpleNamespace

import pytest

from atlas_gym.trainers.loop.atlas import AtlasRun
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.plain import SettingsError
from tests.trainers.exploring import START, Evaluator


def test_a_start_that_fails_on_a_task_that_the_run_drifts_to_is_named():
    class Picky(Evaluator):
        def submit(self, program, task):
            return super().submit("def f(:" if task == (3, 0) else program, task)

    run = AtlasRun.__new__(AtlasRun)
    run.pool, run.tasks = Picky(), SimpleNamespace(task=lambda *place: place)
    drift = {"method": "search", "phase_every": 2, "drift": [{}, {"noise": 0.5}, {"dimension": 8}]}
    run.config = load_config(None, drift | {"rounds": 4})
    run._require_everywhere([START])
    run.config = load_config(None, drift | {"rounds": 5})
    with pytest.raises(SettingsError, match=r"drift\[2\]: the starting program fails there: invalid"):
        run._require_everywhere([START])
