"""What confinement this machine gives, what is missing and how to get it: `python -m atlas_gym doctor`."""

import os
import platform
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from atlas_gym.evaluation.evaluator import DEFAULT_MINIMUM, UNCONFINED_HINT, lack
from atlas_gym.evaluation.result import EvaluatorError, Limits
from atlas_gym.evaluation.workers import ForkServerHandle
from atlas_gym.hidden_streams import PUBLIC, SECRET_VARIABLE, SecretError, secret_path
from atlas_gym.sandbox import call_driver
from atlas_gym.sandbox.confinement import ALL_LAYERS
from atlas_gym.tasks.calls import Calls

_STARTS = 10
_PROGRAM = b"def nothing(): pass\n"
_REMAINS = (
    "Not closed on any machine: programs that run at once can feel each other's load, and a program's imports warm "
    "the page cache; docs/threat-model.md says how much that carries."
)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    """A confinement layer, or another property of the machine."""
    given: bool
    """Whether it is as it should be."""
    detail: str
    """What was seen; if not given, why not and what to do."""
    required: bool = False
    """Whether the default confined evaluator refuses to work without it."""


def examine() -> list[Finding]:
    """Look at everything; starts and ends a fork server for each kind of worker."""
    return [*_layers(), *_surroundings()]


def main() -> int:
    """Print the findings. Returns 0 if programs can be confined as by default, else 1."""
    findings = examine()
    width = max(len(finding.name) for finding in findings)
    print(f"Confinement of programs on {platform.system()} {platform.release()} ({platform.machine()})")
    for finding in findings:
        print(f"  {'yes' if finding.given else 'NO ':<3}  {finding.name:<{width}}  {finding.detail}")
    if all(finding.given for finding in findings if finding.required):
        print("The confined evaluator works here.")
        print(_REMAINS)
        return 0
    print(f"The confined evaluator refuses to work here. {UNCONFINED_HINT}")
    return 1


def _layers() -> Iterator[Finding]:
    held: tuple[str, ...] = ()
    reasons: dict[str, str] = {}
    if sys.platform != "linux":
        reasons = dict.fromkeys(ALL_LAYERS, "this is not Linux")
    else:
        try:
            server = ForkServerHandle(call_driver.__name__, torch=False, layers=ALL_LAYERS)
            held, reasons = server.layers, server.missing
            server.close()
        except EvaluatorError as error:
            reasons = dict.fromkeys(ALL_LAYERS, str(error).strip())
    for layer in ALL_LAYERS:
        required = layer in DEFAULT_MINIMUM
        if layer in held:
            yield Finding(layer, True, "holds: a worker tried to break it", required)
        else:
            yield Finding(layer, False, lack(layer, reasons), required)


def _surroundings() -> Iterator[Finding]:
    yield _starts("numpy workers", torch=False)
    if find_spec("torch") is None:
        yield Finding("torch workers", False, "torch is not installed; the Burgers environment needs it")
    else:
        yield _starts("torch workers", torch=True)
    pinning = hasattr(os, "sched_setaffinity")
    yield Finding("one core for both", pinning, "" if pinning else "steps are slower than they could be")
    yield _secret()


def _starts(name: str, torch: bool) -> Finding:
    layers = ALL_LAYERS if sys.platform == "linux" else ()
    try:
        seconds = cold_start_seconds(torch, layers)
    except EvaluatorError as error:
        return Finding(name, False, str(error).strip())
    return Finding(name, True, f"start in {1000 * sorted(seconds)[len(seconds) // 2]:.1f} ms")


def cold_start_seconds(torch: bool, layers: tuple[str, ...]) -> list[float]:
    """Seconds from asking for a worker to its confined program being loaded, nothing forked ahead."""
    server = ForkServerHandle(call_driver.__name__, torch, layers=layers)
    seconds = []
    try:
        for _ in range(_STARTS):
            began = time.perf_counter()
            worker = server.start(_PROGRAM, "nothing", Limits(), core=-1)
            Calls(worker.channel, "nothing", seed=0).start()
            seconds.append(time.perf_counter() - began)
            server.end(worker)
    finally:
        server.close()
    return seconds


def _secret() -> Finding:
    variable = os.environ.get(SECRET_VARIABLE)
    if variable == PUBLIC:
        return Finding("secret streams", False, f"{SECRET_VARIABLE} is {PUBLIC!r}: they can be guessed")
    if variable:
        return Finding("secret streams", True, f"from {SECRET_VARIABLE}")
    try:
        path = secret_path()
    except SecretError as error:
        return Finding("secret streams", False, str(error))
    if not path.exists():
        return Finding("secret streams", True, f"{path} will be made at first use")
    private = not stat.S_IMODE(path.stat().st_mode) & 0o077
    return Finding("secret streams", private, f"in {path}" + ("" if private else ", which others may read"))
