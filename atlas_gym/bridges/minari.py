"""Minari datasets of (prompt, program, score) (needs the extra `minari`).

Each episode is one of the environment: observations are its prompts, actions the programs, rewards the scores.
Datasets are stored where Minari stores all of its own, `$MINARI_DATASETS_PATH` if it is set.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium as gym

from atlas_gym.optional import require
from atlas_gym.tasks.registry import find_task


def record(
    env_id: str,
    dataset_id: str,
    episodes: Iterable[tuple[int, Sequence[str]]],
    *,
    algorithm: str,
    about: Mapping[str, str] | None = None,
    **constants: Any,
) -> Any:
    """Evaluate programs and store them as a dataset.

    Args:
        env_id: A registered id, or another reference to a task that has one.
        dataset_id: Minari's id, `namespace/name-v0`.
        episodes: Of each episode the task's seed and its programs, at most `turns` of them.
        algorithm: Who wrote the programs.
        about: What else Minari stores of a dataset, such as `description` and `author`.
        constants: The environment's own keywords, `turns` among them.

    Returns:
        The `minari.MinariDataset`.

    Raises:
        ValueError: If the id is none, or that of a dataset there is, or an episode has no programs, too many, or some
            that are no text in UTF-8: all of that is known before anything is evaluated.
    """
    minari = require("minari", "minari")
    buffers = require("minari.data_collector", "minari")
    require("minari.dataset.minari_dataset", "minari").parse_dataset_id(dataset_id)
    if require("minari.storage", "minari").get_dataset_path(dataset_id).exists():
        raise ValueError(f"there is a dataset {dataset_id} already; name another version of it")
    turns = constants.get("turns", 1)
    given = [(int(seed), _storable(seed, programs, turns)) for seed, programs in episodes]
    env = gym.make(find_task(env_id).env_id, **constants)  # Minari stores the id
    try:
        # Minari's own DataCollector needs jax, which nothing here does.
        played = [buffers.EpisodeBuffer(**_play(env, seed, programs)) for seed, programs in given]
        return minari.create_dataset_from_buffers(
            dataset_id, played, env=env, algorithm_name=algorithm, data_format="arrow", **(about or {})
        )
    finally:
        env.close()


def _storable(seed: int, programs: Sequence[str], turns: int) -> list[str]:
    """The programs of an episode; what a file cannot hold would be found when all is evaluated."""
    if isinstance(programs, str) or len(programs) == 0:
        raise ValueError(f"the episode of seed {seed} has no programs: pass a list of texts")
    if len(programs) > turns:
        raise ValueError(
            f"the episode of seed {seed} has {len(programs)} programs: pass turns={len(programs)}"
        )
    for program in programs:
        if not isinstance(program, str):
            raise ValueError(f"a program of seed {seed} is no text but {type(program).__name__}")
        try:
            program.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"a program of seed {seed} is no text in UTF-8: {error.reason}") from None
    return list(programs)


def _play(env: gym.Env[str, str], seed: int, programs: list[str]) -> dict[str, Any]:
    """One episode as the fields of Minari's buffer; the last one ends it, if only by truncation."""
    prompt, _ = env.reset(seed=seed)
    prompts, rewards, ended = [prompt], [], []
    for program in programs:
        prompt, reward, terminated, _, _ = env.step(program)
        prompts.append(prompt)
        rewards.append(reward)
        ended.append(terminated)
    cut = [False] * (len(ended) - 1) + [not ended[-1]]
    return {
        "seed": seed,
        "observations": prompts,
        "actions": programs,
        "rewards": rewards,
        "terminations": ended,
        "truncations": cut,
    }


def load(dataset_id: str) -> list[tuple[str, str, float]]:
    """(prompt, program, score) of every step; a failed program has the environment's worst score."""
    dataset = require("minari", "minari").load_dataset(dataset_id)
    rows = []
    for episode in dataset.iterate_episodes():
        # One observation more than there are actions: the last prompt is answered by nothing.
        steps = zip(episode.observations, episode.actions, episode.rewards, strict=False)
        rows += [(str(prompt), str(program), float(reward)) for prompt, program, reward in steps]
    return rows
