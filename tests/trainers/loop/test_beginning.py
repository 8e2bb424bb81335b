"""A run goes on as what it was begun with."""

import pytest

from atlas_gym.trainers.loop.beginning import note_beginning, require_beginning
from atlas_gym.trainers.loop.config import load_config
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore, StoreError

HALVING = """
import atlas_gym


class Halving(atlas_gym.ProgramTask):
    "x: a number."
    start = "def half(x):\\n    return x\\n"

    def instances(self, rng):
        return rng.random(3)

    def score(self, program, x):
        return -abs(program(x).number() - x / 2)
"""


def folder_task(folder):
    (folder / "initial_program.py").write_text("def half(x):\n    return x\n")
    (folder / "evaluator.py").write_text("def evaluate(path):\n    return {'combined_score': 2}  # half\n")
    return folder, folder / "evaluator.py"


def file_task(folder):
    file = folder / "halving.py"
    file.write_text(HALVING)
    return f"{file}:Halving", file


@pytest.mark.parametrize("made", [file_task, folder_task])
def test_a_run_keeps_its_task(made, tmp_path):
    env, file = made(tmp_path)
    config = load_config(None, {"method": "search", "rounds": 3, "env": str(env)})
    text = file.read_text()
    with RunStore(tmp_path / "run") as store:
        note_beginning(config, store)
        file.write_text(f"# A comment is no change.\n{text}")
        require_beginning(config, store)
        file.write_text(text.replace("2", "3"))
        with pytest.raises(SettingsError, match=r"is not what it was when .*undo the change, or begin"):
            require_beginning(config, store)
        file.unlink()
        require_beginning(config, store)  # that it is gone is said by whoever looks for it


def test_a_task_of_this_package_may_change_with_it(tmp_path):
    config = load_config(None, {"method": "search", "rounds": 3})
    with RunStore(tmp_path) as store:
        note_beginning(config, store)
        assert store.get_meta("task") == ""


@pytest.mark.parametrize("stored", ["rounds: [", 5])
def test_settings_that_are_none_any_more_are_damage(stored, tmp_path):
    config = load_config(None, {"method": "search", "rounds": 3})
    with RunStore(tmp_path) as store:
        note_beginning(config, store)
        store.set_meta("settings", stored)
        with pytest.raises(StoreError, match="where the run's settings belongs"):
            require_beginning(config, store)
