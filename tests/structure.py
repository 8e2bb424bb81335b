"""How large the house is, and how far a program's way through it: `python -m tests.structure [CHECKOUT]`.

Prints lines, modules and rooms of this checkout or of another one. For this checkout a real run is traced as well, of
the embedded model on a short bandit with one phase: every function of the package that is handed, holds or returns
what a program is on its way (completion, candidate, evaluation, preference pair), in the run's own process; and, with
confinement off, every function that the evaluator and the worker enter to score one program. Readers are left out:
supporters, reports and loggers look at programs and pass none on.
"""

import argparse
import ast
import json
import os
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
READERS = ("agents/supporters", "experiments/")
PROGRAM = "def policy(context, history, t):\n    return {arm}\n"
SMALL = {
    "env": "ATLAS-Bandit-v0", "env_args": {"horizon": 60, "replicas": 1}, "start": "inlined", "method": "evodpo",
    "rounds": 3, "phase_every": 2, "skip_idle_phases": False, "held_out_seeds": 1, "tracking": "off", "device": "cpu",
    "workers": 1, "torch_threads": 2, "exploration": {"islands": 2, "samples": 8, "writers": {"agent": 1.0}},
    "pairs": {"count": 8}, "phase": {"epochs": 1}, "gate": {"prompts": 2, "samples": 2},
}  # fmt: skip


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
    found = {layer: modules(checkout / layer) for layer in LAYERS}
    outside = [path for layer, files in found.items() if layer != "tests" for path in files]
    print(f"outside the tests {sum(map(lines, outside))} lines in {len(outside)} modules")
    for layer, files in found.items():
        rooms: defaultdict[str, int] = defaultdict(int)
        for path in files:
            rooms[str(path.parent.relative_to(checkout))] += lines(path)
        longest = max(files, key=lines)
        length, name, where = max((*one, str(p.relative_to(checkout))) for p in files for one in functions(p))
        print(f"{layer:12} {sum(map(lines, files)):6} lines, {len(files):4} modules")
        print(f"{'':12} longest file {longest.relative_to(checkout)} ({lines(longest)})")
        print(f"{'':12} longest function {name} in {where} ({length})")
        print(f"{'':12} rooms: {', '.join(f'{room} {count}' for room, count in sorted(rooms.items()))}")


class Recorder:
    """Notes functions of the package, in this thread and in those that start while it is on.

    Args:
        forms: only those are noted that hold a value of these classes; none: all that are entered.
    """

    def __init__(self, forms: tuple[type, ...] = ()) -> None:
        self.seen: set[tuple[str, str]] = set()
        self._forms = forms

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event not in ("call", "return") or not file.startswith(str(HERE / "atlas_gym")):
            return
        place = str(Path(file).relative_to(HERE)).replace("atlas_gym/agents", "agents")
        place = place.replace("atlas_gym/trainers", "trainers").replace(
            "atlas_gym/experiments", "experiments"
        )
        # A comprehension or lambda is a part of the function around it.
        name = frame.f_code.co_qualname.partition(".<locals>.<")[0]
        if place.startswith(READERS) or (place, name) in self.seen:
            return
        if not self._forms or any(self._holds(value) for value in (argument, *frame.f_locals.values())):
            self.seen.add((place, name))

    def _holds(self, value: object, depth: int = 2) -> bool:
        if isinstance(value, self._forms):
            return True
        if depth and isinstance(value, list | tuple):
            return any(self._holds(item, depth - 1) for item in value[:4])
        return (
            bool(depth)
            and type(value) is dict
            and any(self._holds(v, depth - 1) for v in list(value.values())[:4])
        )

    def __enter__(self) -> "Recorder":
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def in_the_run() -> set[tuple[str, str]]:
    """What holds a program in the process of a run, from the engine's completion to the phase's pairs."""
    from atlas_gym.agents.engines.engine import Completion
    from atlas_gym.agents.population.candidate import Candidate
    from atlas_gym.evaluation import Evaluation
    from atlas_gym.trainers.data.pairs import PreferencePair
    from atlas_gym.trainers.loop.atlas import AtlasRun
    from atlas_gym.trainers.loop.config import load_config
    from atlas_gym.trainers.store.store import RunStore

    for seed in range(8):  # until something improves, so that a phase has pairs
        recorder = Recorder((Completion, Candidate, Evaluation, PreferencePair))
        with tempfile.TemporaryDirectory() as folder, RunStore(Path(folder)) as store:
            with recorder, AtlasRun(load_config(None, {**SMALL, "seed": seed}), store) as run:
                run.run()
            if store.tuned_phases():
                return recorder.seen
    raise RuntimeError("no phase was trained in eight runs")


def in_the_evaluator(task: Any) -> set[tuple[str, str]]:
    """What scores a program on the trusted side, once it is warm."""
    from atlas_gym.evaluation import UnconfinedEvaluator

    with UnconfinedEvaluator() as evaluator:
        evaluator.evaluate(PROGRAM.format(arm=0), task)
        with Recorder() as recorder:
            evaluator.evaluate(PROGRAM.format(arm=1), task)
    return recorder.seen


def in_the_worker(task: Any) -> set[tuple[str, str]]:
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


def way() -> None:
    """Print a program's way, by process."""
    from atlas_gym import make_task

    task = make_task("ATLAS-Bandit-v0", seed=0, replicas=1, horizon=20)
    sides = {"run": in_the_run(), "evaluator": in_the_evaluator(task), "worker": in_the_worker(task)}
    everything = set().union(*sides.values())
    files = {file for file, _ in everything}
    print(f"a program's way: {len(files)} files, {len(everything)} functions, besides the fork server")
    for side, seen in sides.items():
        print(f"  {side}: {len({file for file, _ in seen})} files, {len(seen)} functions")
        for file in sorted({file for file, _ in seen}):
            print(f"    {file}: {', '.join(sorted(name for place, name in seen if place == file))}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.structure", description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path, default=HERE, help="another checkout's folder")
    chosen = parser.parse_args().checkout.resolve()
    if not (chosen / LAYERS[0]).is_dir():
        parser.error(f"{chosen} is no checkout: it has no folder {LAYERS[0]}")
    size(chosen)
    if chosen == HERE:
        way()
