import pickle

import pytest

import atlas_gym
from atlas_gym.program_text import syntax_error
from atlas_gym.tasks.registry import BUILT_IN

IDS = list(BUILT_IN)


@pytest.mark.parametrize("env_id", IDS)
def test_a_specification_tells_all_that_a_text_writer_needs(env_id):
    spec = atlas_gym.make_task(env_id)
    assert spec.env_id == env_id
    assert spec.signature.startswith(f"def {spec.function}(")
    assert spec.signature in spec.description
    assert set(spec.starts) >= {"named", "inlined", "scratch"}
    assert spec.worst_score < -1
    for program in spec.starts.values():
        assert spec.signature in program
        assert syntax_error(program, spec.function) is None


@pytest.mark.parametrize("env_id", IDS)
def test_tasks_are_small_plain_data(env_id):
    task = atlas_gym.make_task(env_id, seed=3, split="held_out")
    assert task.function == atlas_gym.make_task(env_id).function
    packed = pickle.dumps(task)
    assert pickle.loads(packed) == task
    assert len(packed) < 2000


def test_parameters_reach_description_and_task():
    assert "7 context vectors" in atlas_gym.make_task("ATLAS-Bandit-v0", arms=7).description
    assert atlas_gym.make_task("ATLAS-Bandit-v0", seed=0, arms=7).arms == 7


def test_descriptions_do_not_give_the_constants_away():
    """How noisy and how fast is for the program to find out."""
    description = atlas_gym.make_task("ATLAS-Bandit-v0", noise=0.123, variation_budget=77.0).description
    assert "0.123" not in description
    assert "77" not in description


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"seed": 1.5}, ValueError, "seed is 1.5"),
        ({"seed": 0, "split": "test"}, ValueError, "one of train, held_out"),
        ({"seed": 0, "horizn": 3}, TypeError, "horizn"),
    ],
)
def test_mistakes_are_named(keywords, error, message):
    with pytest.raises(error, match=message):
        atlas_gym.make_task("ATLAS-Bandit-v0", **keywords)


def test_unknown_environments_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="no task 'ATLAS-Chess-v0'; there are ATLAS-Bandit-v0"):
        atlas_gym.make_task("ATLAS-Chess-v0")
