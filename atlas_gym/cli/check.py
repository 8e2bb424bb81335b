"""`python -m atlas_gym check TASK`: is a task fit for use? It needs no model.

Do its programs score, are its seeds reproducible, does nonsense fail on it, how many evaluations a second does it
give, and is there room above the start?
"""

import argparse
import pickle
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, Literal

from atlas_gym.arguments import SET, at_least_one, progress
from atlas_gym.evaluation import ConfinedEvaluator, Evaluation, Evaluator, EvaluatorError, InfrastructureError
from atlas_gym.evaluation.server import computing_at_most
from atlas_gym.hidden_streams import SecretError, hidden_stream
from atlas_gym.mistake import in_a_line
from atlas_gym.tasks.constants import constants_from
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.registry import make_task

_COMPUTES_S = 300.0
"""CPU time that the task's own code may take for one finding."""
_NONSENSE_WALL_S = 2.0
"""Nonsense that never ends is waited for this long."""
_ROOM = 0.02
"""Share of the way from start to perfect that an expert should have found."""
_SCALE = "return minus a cost; from a gain take the best known, or a bound"
_SUNK = "a score below the floor counts as the floor, so nothing shows the way"


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    check: str  # what was looked at
    verdict: Literal["ok", "note", "wrong"]  # `wrong` is a mistake; a `note` may be meant so
    text: str  # what was found, and what to do about it


def add_check(commands: Any) -> None:
    parser = commands.add_parser(
        "check",
        help="say whether a task of your own is fit for use",
        description="do its programs score, are its seeds reproducible, does nonsense fail, how many evaluations "
        "a second does it give, and is there room above the start? exit code 1: a mistake",
    )
    parser.add_argument("task", help="an id that `list` shows, module:Class, ./file.py or a folder")
    parser.add_argument(
        "--seeds", type=at_least_one, default=4, help="tasks that the programs are tried on (default 4)"
    )
    parser.add_argument("--set", **SET)
    parser.set_defaults(command=_check)


def _check(options: argparse.Namespace) -> int:
    task = make_task(options.task, **constants_from(options.set))
    print(f"{task.env_id}  {task.signature}")
    wrong = 0
    with ConfinedEvaluator() as evaluator:
        found = findings(task, evaluator, options.seeds)
        while True:
            with computing_at_most(_COMPUTES_S):  # the author's code may never end
                finding = next(found, None)
            progress()
            if finding is None:
                break
            print(f"{finding.verdict:<6}{finding.check:<10} {finding.text}", flush=True)
            wrong += finding.verdict == "wrong"
    return 1 if wrong else 0


def findings(task: ProgramTask, evaluator: Evaluator, seeds: int = 4) -> Iterator[Finding]:
    """Check a task, one thing after the other, its programs on so many training tasks (≥ 1)."""
    try:
        pickle.dumps(task)  # as whatever evaluates several programs at a time does
        # What is the same for all seeds is not searched for again and again.
        tried = range(1 if (yield from _seeds(task)) else seeds)
        scores = {}
        for name, expert in task.programs.items():
            progress(f"{name}: {len(tried)} evaluations")
            found = [evaluator.evaluate(expert.program, task.at(seed)) for seed in tried]
            if failed := next((e for e in found if not e.ok), None):
                yield Finding(name, "wrong", f"{failed.status}: {failed.detail}")
                continue
            scores[name] = score = mean(e.score for e in found if e.score is not None)
            normalized = mean(e.metrics["normalized_score"] for e in found)
            if score > _ROOM:
                text = f"score {score:.4f}, above 0, which is to be perfect: {_SCALE}"
                yield Finding(name, "note", text)
            else:
                yield Finding(name, "ok", f"score {score:.4f}, normalized {normalized:.3f}")
            if name == task.initial:
                first, wall_s = found[0], mean(e.wall_s for e in found)
        if task.initial not in scores:
            return
        again = evaluator.evaluate(task.programs[task.initial].program, task.at(0))
        if again.score == first.score:
            yield Finding("repeated", "ok", "the start scores the same again")
        else:
            scored = f"the start scored {first.score}, then {again.score} on the same seed"
            yield Finding("repeated", "wrong", f"{scored}: noise is drawn in `instances`")
        yield from _nonsense(task, scores[task.initial], evaluator)
        yield _look_ahead(task, again.score, evaluator)
        text = f"{1 / wall_s:.1f} evaluations of the start a second on one core, {wall_s:.3f} s each"
        if wall_s > task.limits.wall_s / 2:
            slow = f"{text}: more than half of the limit of {task.limits.wall_s:g} s"
            yield Finding("speed", "note", slow)
        else:
            yield Finding("speed", "ok", text)
        start, (best, score) = scores[task.initial], max(scores.items(), key=lambda item: item[1])
        text = f"floor {task.floor:g}, start {start:.4f}, best {score:.4f} ({best}), perfect 0"
        lacks = {
            f"{_SUNK}; give a lower floor or a better start": start <= task.floor,
            "the start is perfect, so nothing is left to gain": start >= 0,
            "without an expert nobody knows whether better is possible": len(scores) == 1,
            "no expert is much better than the start": score - start < -_ROOM * start,
        }
        lack = next((lack for lack, holds in lacks.items() if holds), "")
        yield Finding("head-room", "note" if lack else "ok", f"{text}: {lack}" if lack else text)
    except (EvaluatorError, SecretError):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the author's own methods raise is a finding
        yield Finding("methods", "wrong", in_a_line(error))


def _seeds(task: ProgramTask) -> Generator[Finding, None, bool]:
    """Returns whether all seeds give the same."""
    if type(task).judge is not ProgramTask.judge:
        return False  # it draws what is hidden in a way of its own
    draws = []
    for seed, split in ((0, "train"), (0, "train"), (1, "train"), (0, "held_out")):
        instances = list(task.at(seed, split).instances(hidden_stream("check", task.env_id, split, seed)))
        try:
            draws.append(pickle.dumps(instances))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            lack = f"instances cannot be compared ({error})"
            yield Finding(
                "seeds", "note", f"{lack}: yield numbers, texts and arrays, make functions in `score`"
            )
            return False
    if draws[0] != draws[1]:
        yield Finding("seeds", "wrong", "a seed gives other instances every time: draw them from `rng` alone")
    elif draws[0] in (draws[2], draws[3]):
        yield Finding("seeds", "note", "all seeds give the same instances: a held-out score confirms nothing")
    else:
        yield Finding("seeds", "ok", "a seed gives the same instances again, another seed or split others")
    return draws.count(draws[0]) == len(draws)


def _nonsense(task: ProgramTask, start: float, evaluator: Evaluator) -> Iterator[Finding]:
    """Nonsense must fail, or at least not win."""
    limits = replace(task.limits, wall_s=min(task.limits.wall_s, _NONSENSE_WALL_S))
    quick, programs, accepted = replace(task.at(0), limits=limits), nonsense(task.function), []
    for number, (name, program) in enumerate(programs.items()):
        progress(f"nonsense {number} of {len(programs)}: {name}")
        try:
            evaluation = evaluator.evaluate(program, quick)
        except InfrastructureError as error:
            yield Finding("nonsense", "note", f"{name} could not be tried: {error}")
            return
        if evaluation.score is not None and evaluation.score > start:
            yield Finding("nonsense", "wrong", f"{name} scores {evaluation.score:.4f}, more than the start")
        elif evaluation.ok:
            accepted.append(name)
    if accepted:
        taken = ", ".join(accepted)
        yield Finding("nonsense", "note", f"taken for answers: {taken}; check answers before using them")
    else:
        yield Finding("nonsense", "ok", f"{len(programs)} programs that answer nonsense or do harm fail")


_BODIES = {
    "nothing": "pass",
    "a text": "return 'seven'",
    "an object": "return object()",
    "a function": "return print",
    "a mapping": "return {'a': object()}",
    "NaN": "return float('nan')",
    "infinity": "return float('inf')",
    "an array of NaN": "return np.full(3, np.nan)",
    "an array of six dimensions": "return np.zeros((2,) * 6)",
    "a list within itself": "x = []; x.append(x); return x",
    "a million numbers": "return [1.0] * 1_000_000",
    "an array of a gigabyte": "return np.zeros(1 << 27)",
    "an integer of a thousand digits": "return 10 ** 1000",
    "many texts, one of them long": "return ['x' * 1_000_000] + [''] * 50_000",
    "it never ends": "while True: pass",
    "it ends its process": "import os; os._exit(0)",
    "it raises SystemExit": "raise SystemExit(0)",
    "it reads a file of the user's": "return len(open('/etc/passwd').read())",
    "it writes a file": "open('/tmp/atlas-gym-check', 'w').write('x')",
    "it opens a connection": "import socket; socket.create_connection(('127.0.0.1', 9))",
    "it starts a process": "import subprocess; subprocess.run(['true'])",
    "it kills its parent": "import os; os.kill(os.getppid(), 9)",
}
"""What the function returns, and then what it does instead of answering, by name."""


def nonsense(function: str) -> dict[str, str]:
    """Programs that no task should be won by, all of these for a function, by name.

    The bodies fit any function; what a task takes for an answer is its own affair, so an accepted one is only wrong if
    it beats the start.
    """
    head = f"import numpy as np\n\n\ndef {function}(*arguments, **keywords):\n    "
    return {name: f"{head}{body}\n" for name, body in _BODIES.items()}


_THIEF = """

_honest = {function}


def {function}(*arguments):
    import sys
    frame = sys._getframe()
    while frame and "calls" not in frame.f_locals:
        frame = frame.f_back
    if not frame:
        return _honest(*arguments)
    rest = [column.__reduce__() for column in frame.f_locals["calls"].__reduce__()[1]][1:]
    if len(rest[0]) < 3 or rest[0][2] >= len(rest[0][1][0]):
        return _honest(*arguments)
    ahead = [column[1][0][column[2]] for column in rest]
    return {stolen}
"""
"""A program that answers as an honest one until it sees the next call of its exchange in its caller's frame."""
_SEEN = "the next call is seen"


def _look_ahead(task: ProgramTask, start: float | None, evaluator: Evaluator) -> Finding:
    """What the next call is given may be the answer to this one."""

    def stealing(stolen: str) -> Evaluation:
        wrapped = _THIEF.format(function=task.function, stolen=stolen)
        return evaluator.evaluate(task.programs[task.initial].program + wrapped, task.at(0))

    if _SEEN not in stealing(f"int({_SEEN!r})").detail:
        return Finding("look-ahead", "ok", "no call is seen before the one ahead of it is answered")
    for number in range(task.signature.partition("->")[0].count(",") + 1):
        for stolen in (f"ahead[{number}]", f"ahead[{number}][-1]"):
            score = stealing(stolen).score
            if score is not None and start is not None and score > start:
                text = f"whoever looks at the next call scores {score:.4f}, more than the start: no `all_visible`"
                return Finding("look-ahead", "wrong", text)
    return Finding("look-ahead", "ok", "calls of one exchange see each other, and to look ahead wins nothing")
