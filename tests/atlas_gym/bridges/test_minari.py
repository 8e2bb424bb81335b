"""A dataset is recorded, reloaded and says what the environment said."""

import gymnasium as gym
import numpy as np
import pytest

import atlas_gym

SMALL = {"horizon": 60, "replicas": 1}
SPEC = atlas_gym.make_task("ATLAS-Bandit-v0", **SMALL)
EPISODES = [
    (
        seed,
        [SPEC.starts["named"], "def policy(θ):\n    # no such function — «broken»\n", SPEC.starts["scratch"]],
    )
    for seed in (np.int64(3), 4)
]


def test_prompts_programs_and_scores_come_back(tmp_path, monkeypatch):
    pytest.importorskip("minari", reason="needs the extra `minari`")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    from atlas_gym.bridges.minari import load, record

    dataset = record("ATLAS-Bandit-v0", "atlas/test-v0", EPISODES, algorithm="experts", turns=3, **SMALL)
    assert dataset.total_episodes == 2
    expected = []
    env = gym.make("ATLAS-Bandit-v0", turns=3, **SMALL)
    for seed, programs in EPISODES:
        prompt, _ = env.reset(seed=seed)
        for program in programs:
            following, reward, *_ = env.step(program)
            expected.append((prompt, program, reward))
            prompt = following
    env.close()
    assert load("atlas/test-v0") == expected


@pytest.mark.parametrize(
    ("dataset_id", "message"),
    [("atlas/there-v0", "there is a dataset atlas/there-v0 already"), ("a b", "Malformed")],
)
def test_a_name_that_cannot_be_used_costs_no_evaluation(dataset_id, message, tmp_path, monkeypatch):
    pytest.importorskip("minari", reason="needs the extra `minari`")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    (tmp_path / "atlas" / "there-v0").mkdir(parents=True)
    from atlas_gym.bridges.minari import record

    monkeypatch.delattr("atlas_gym.envs.program_env.ProgramEnv.step")
    with pytest.raises(ValueError, match=message):
        record("ATLAS-Bandit-v0", dataset_id, EPISODES, algorithm="experts", turns=3, **SMALL)


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        ([], "seed 7 has no programs"),
        ("x = 1", "pass a list of texts"),
        (["x = 1"] * 9, "has 9 programs: pass turns=9"),
        (["x = 1", None], "is no text but NoneType"),
        (["x = 1", "x = '\ud800'"], "no text in UTF-8"),
    ],
)
def test_programs_that_cannot_be_stored_cost_no_evaluation(programs, message, tmp_path, monkeypatch):
    pytest.importorskip("minari", reason="needs the extra `minari`")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    from atlas_gym.bridges.minari import record

    monkeypatch.delattr("atlas_gym.envs.program_env.ProgramEnv.step")
    with pytest.raises(ValueError, match=message):
        record(
            "ATLAS-Bandit-v0", "atlas/x-v0", [*EPISODES, (7, programs)], algorithm="experts", turns=3, **SMALL
        )
    assert not list(tmp_path.iterdir())
