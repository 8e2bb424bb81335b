"""Attacks on the score through the evaluators of OpenEvolve and ShinkaEvolve, each used as its own examples use it.

    python -m tests.hostile.peers

installs both (`experiments.learners.peer`) and prints, for each, how many of the attacks on hidden state and scores end
with an accepted score above the honest program's, beside a plain `exec` and our confined evaluator; and how fast each
evaluates the honest program of the full task. Evaluators take turns in sacrificial processes, as in `plain`.
"""

import asyncio
import contextlib
import io
import logging
import pickle
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from atlas_gym import ProgramTask, make_task
from atlas_gym.evaluation import ConfinedEvaluator
from atlas_gym.experiments.learners.peer import Peer, environment, read_peer
from atlas_gym.tasks.bandit.bare import play_bare
from tests.hostile import plain
from tests.hostile.catalogue import answers, state
from tests.hostile.plain import Play
from tests.hostile.scene import Scene
from tests.hostile.seats import bandit

ATTACKS = (*state.ATTACKS, *answers.ATTACKS)

_OPENEVOLVE_FILE = """
import pickle
from atlas_gym.tasks.bandit.bare import play_bare

with open({task!r}, "rb") as file:
    TASK = pickle.load(file)


def evaluate(path):
    with open(path) as file:
        return {{"combined_score": play_bare(file.read(), TASK)}}
"""
_SHINKA_END = """

def run_experiment(seed=None):
    import pickle
    from atlas_gym.tasks.bandit.bare import play_bare

    with open({task!r}, "rb") as file:
        task = pickle.load(file)
    with open(__file__) as file:
        return play_bare(file.read().partition("def run_experiment")[0], task)
"""


def openevolve(folder: Path, task: ProgramTask) -> Play:
    """OpenEvolve's evaluator, which runs the evaluation file, and so the program, in its own process."""
    from openevolve.config import EvaluatorConfig  # type: ignore[import-not-found]
    from openevolve.evaluator import Evaluator  # type: ignore[import-not-found]

    (folder / "evaluate.py").write_text(_OPENEVOLVE_FILE.format(task=_stored(folder, task)))
    evaluator = Evaluator(
        EvaluatorConfig(cascade_evaluation=False, max_retries=0), str(folder / "evaluate.py")
    )

    def play(program: str) -> tuple[float | None, str]:
        metrics = asyncio.run(evaluator.evaluate_program(program))
        return metrics.get("combined_score"), str(metrics)

    return play


def shinka(folder: Path, task: ProgramTask) -> Play:
    """ShinkaEvolve's `run_shinka_eval`, the body of every evaluation file of its examples."""
    from shinka.core import run_shinka_eval  # type: ignore[import-not-found]
    from shinka.utils import load_results  # type: ignore[import-not-found]

    end = _SHINKA_END.format(task=_stored(folder, task))

    def play(program: str) -> tuple[float | None, str]:
        path = folder / "program.py"
        path.write_text(program + end)
        score = {"aggregate_metrics_fn": lambda results: {"combined_score": results[0]}}
        run_shinka_eval(str(path), str(folder / "results"), "run_experiment", 1, **score)
        found = load_results(str(folder / "results"))
        return (found["metrics"]["combined_score"] if found["correct"]["correct"] else None), str(
            found["correct"]
        )

    return play


def achieved(play: Play | None) -> list[list[str]]:
    """What each attack achieved; RuntimeError if the honest program has not the score that it has everywhere."""
    seat = bandit()
    found = list(plain.run(seat, play, ATTACKS).values())
    if play is not None:  # only now: a sacrificial process must not inherit an evaluator that is in use
        with contextlib.redirect_stdout(io.StringIO()):
            score, detail = play(seat.honest)
        if score != seat.play_bare(seat.honest, seat.task):
            raise RuntimeError(f"the honest program scores {score}: {detail}")
    return found


def achieved_confined() -> list[list[str]]:
    """The same through our evaluator."""
    seat = bandit()
    with Scene() as scene, ConfinedEvaluator() as evaluator:
        honest = seat.play_bare(seat.honest, seat.task)
        programs = [seat.program(attack, scene) for attack in ATTACKS if attack.works_here]
        limit_s = seat.task.limits.wall_s
        return [scene.harm(evaluator.evaluate(program, seat.task), honest, limit_s) for program in programs]


def main() -> None:
    """Print what was forged, then the speeds."""
    logging.disable(logging.ERROR)
    for peer in map(read_peer, ("openevolve", "shinka")):
        _reach(peer)
    seat, task = bandit(), make_task("ATLAS-Bandit-v0", seed=0)
    names = {"plain exec": None, "OpenEvolve": openevolve, "ShinkaEvolve": shinka}
    for name, make in names.items():
        _tell(name, achieved(make and make(_folder(), seat.task)))
    _tell("ours, confined", achieved_confined())
    with ConfinedEvaluator() as evaluator:
        plays: dict[str, Callable[[str], object]] = {
            "plain exec": lambda program: play_bare(program, task),
            "OpenEvolve": openevolve(_folder(), task),
            "ShinkaEvolve, without its process per program": shinka(_folder(), task),
            "ours, confined": lambda program: evaluator.evaluate(program, task),
        }
        for name, speed in speeds(plays, seat.honest).items():
            print(f"{name}: {speed:.1f} evaluations a second", flush=True)


def _tell(name: str, found: list[list[str]]) -> None:
    forged = sum("forged a score" in harm for harm in found)
    print(
        f"{name}: of {len(found)} attacks {forged} are scored above the honest program, "
        f"{sum(map(bool, found))} do some harm",
        flush=True,
    )


def speeds(plays: dict[str, Callable[[str], object]], program: str, repeats: int = 5) -> dict[str, float]:
    """Evaluations a second of each, by the median of runs that take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in plays}
    for _ in range(repeats):
        for name, play in plays.items():
            began = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                play(program)
            seconds[name].append(time.perf_counter() - began)
    return {name: 1 / median(values) for name, values in seconds.items()}


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="atlas-peers-"))


def _stored(folder: Path, task: ProgramTask) -> str:
    path = folder / "task.pickle"
    path.write_bytes(pickle.dumps(task))
    return str(path)


def _reach(peer: Peer) -> None:
    """Let this process import from the peer's environment what it does not have itself."""
    python = environment(peer, Path("runs/peers"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path.append(str(python.parents[1] / "lib" / version / "site-packages"))


if __name__ == "__main__":
    main()
