"""How large the house is: `python -m tests.structure [CHECKOUT]` prints it for this checkout, or for another one.

Lines and modules per layer and per room, the longest file and function; for this checkout also the files and forms on a
candidate's way from prompt to preference pair, and the files and functions on a program's way from text to score,
recorded while a pool evaluates one.
"""

import argparse
import ast
import json
import os
import pickle
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).parents[1]
LAYERS = ("atlas_gym", "agents", "trainers", "experiments", "tests")
FORMS = {"Proposal", "Completion", "CandidateRecord", "Evaluation", "PreferencePair"}
"""Proposal, completion, candidate, evaluation, pair."""
WAY = (
    "trainers/loop/exploration.py", "agents/research_agent.py", "agents/population/island.py",
    "agents/population/candidate.py", "agents/proposals/style.py", "agents/proposals/edit_line.py",
    "agents/proposals/source.py", "trainers/data/rollouts.py", "agents/engines/hf_transformers.py",
    "agents/engines/samples.py", "atlas_gym/evaluation/pool.py", "trainers/store/store.py",
    "trainers/store/queries.py", "trainers/loop/phase_data.py", "trainers/data/pairs.py",
)  # fmt: skip
"""From the loop down to the engine, up through evaluation and store, to the pair; with one style and one engine."""

PROGRAM = "def policy(context, history, t):\n    return {arm}\n"


def modules(layer: Path) -> list[Path]:
    """A layer's Python files; candidates (`experts`) are data."""
    return [p for p in sorted(layer.rglob("*.py")) if p.parent.name != "experts" or p.name == "__init__.py"]


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """Length and name of each function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, node.name


def size(checkout: Path) -> None:
    """Print what can be counted in the files."""
    total = sum(lines(path) for layer in LAYERS if layer != "tests" for path in modules(checkout / layer))
    print(f"{total} lines outside the tests")
    for layer in LAYERS:
        files = modules(checkout / layer)
        rooms: defaultdict[str, int] = defaultdict(int)
        for path in files:
            rooms[str(path.parent.relative_to(checkout))] += path.name != "__init__.py"
        longest = max(files, key=lines)
        length, name, where = max(
            (*found, str(p.relative_to(checkout))) for p in files for found in functions(p)
        )
        fullest = max(rooms, key=lambda room: rooms[room])
        print(f"{layer:12} {sum(map(lines, files)):6} lines, {len(files):4} modules, {len(rooms):3} rooms")
        print(f"{'':12} longest file {longest.relative_to(checkout)} ({lines(longest)})")
        print(
            f"{'':12} longest function {name} in {where} ({length}); fullest room {fullest} ({rooms[fullest]})"
        )


class Recorder:
    """Notes which functions of the package are entered, in this thread and in those that start while it is on."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(HERE / "atlas_gym")):
            self.seen.add((str(Path(file).relative_to(HERE)), frame.f_code.co_qualname))

    def __enter__(self) -> "Recorder":
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def caller_side(task: Any) -> set[tuple[str, str]]:
    """What runs in the process that asks a pool; a thread is recorded from its start, so its pool is new."""
    from atlas_gym.evaluation import EvaluatorPool

    with Recorder() as recorder, EvaluatorPool(1, confinement="unconfined") as pool:
        pool.submit(PROGRAM.format(arm=0), task).result()  # starts everything
        recorder.seen.clear()
        pool.submit(PROGRAM.format(arm=1), task).result()
        return set(recorder.seen)


def trusted_side(task: Any) -> set[tuple[str, str]]:
    """What runs in the evaluator's process, once it is warm."""
    from atlas_gym.evaluation import UnconfinedEvaluator
    from atlas_gym.evaluation.server import answer

    with UnconfinedEvaluator() as evaluator:
        answer(evaluator, pickle.dumps((PROGRAM.format(arm=0), task)))
        with Recorder() as recorder:
            answer(evaluator, pickle.dumps((PROGRAM.format(arm=1), task)))
    return recorder.seen


def worker_side(task: Any) -> set[tuple[str, str]]:
    """What runs in a worker: one without confinement, forked here."""
    from atlas_gym.evaluation.channel import Channel
    from atlas_gym.sandbox import wire

    to_worker, from_worker = os.pipe(), os.pipe()
    with tempfile.NamedTemporaryFile("w+") as notes:
        pid = os.fork()
        if pid == 0:
            os.close(to_worker[1])
            _be_worker(to_worker[0], from_worker[1], task.driver, notes.name)
        os.close(to_worker[0])
        os.close(from_worker[1])
        channel = Channel(from_worker[0], to_worker[1])
        name, program = task.function.encode(), PROGRAM.format(arm=0).encode()
        channel.send(wire.START.pack(4096, 60, -1, 500, len(name), len(program)) + name + program)
        channel.receive(wire.READY.size)
        task.judge(channel)
        channel.close()
        os.waitpid(pid, 0)
        return {(file, function) for file, function in json.load(notes)}


def _be_worker(read_fd: int, write_fd: int, driver: str, notes: str) -> None:
    from atlas_gym.sandbox import worker
    from atlas_gym.sandbox.confinement import Confinement

    recorder, leave = Recorder(), os._exit

    def note_and_leave(code: int) -> None:
        sys.setprofile(None)
        Path(notes).write_text(json.dumps(sorted(recorder.seen)))
        leave(code)

    vars(os)["_exit"] = note_and_leave
    serve = import_module(driver).serve
    sys.setprofile(recorder)
    worker.run(read_fd, write_fd, serve, Confinement((), ()))


def way_to_a_score() -> dict[str, set[tuple[str, str]]]:
    """Files and functions by process; the fork server's own two are those that fork and that report an end."""
    from atlas_gym.tasks import registry

    task = registry.make_task("ATLAS-Bandit-v0", seed=0, replicas=1, horizon=20)
    return {"caller": caller_side(task), "evaluator": trusted_side(task), "worker": worker_side(task)}


def main(checkout: Path) -> None:
    size(checkout)
    if checkout != HERE:
        return
    print(f"a candidate's way: {len(WAY)} files, {len(FORMS)} forms")
    sides = way_to_a_score()
    everything = set().union(*sides.values())
    files = sorted({file for file, _ in everything} | {"atlas_gym/sandbox/forkserver.py"})
    print(
        f"a program's way to its score: {len(files)} files, {len(everything)} functions besides the fork server's"
    )
    for side, seen in sides.items():
        print(f"  {side:10} {len(seen):3} functions in {', '.join(sorted({file for file, _ in seen}))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.structure", description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path, default=HERE, help="another checkout's folder")
    chosen = parser.parse_args().checkout.resolve()
    if not (chosen / LAYERS[0]).is_dir():
        parser.error(f"{chosen} is no checkout: it has no folder {LAYERS[0]}")
    main(chosen)
