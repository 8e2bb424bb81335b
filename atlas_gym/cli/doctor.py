"""What confinement this machine gives, what is missing and how to get it: `python -m atlas_gym doctor`."""

import os
import platform
import stat
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median

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

    name: str  # a confinement layer, or another property of the machine
    given: bool  # whether it is as it should be
    detail: str  # what was seen; if not given, why not and what to do
    required: bool = False  # whether the default confined evaluator refuses to work without it


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


def examine() -> list[Finding]:
    """Look at layers, workers, cores and the secret; starts and ends a fork server for each kind of worker."""
    held: tuple[str, ...] = ()
    reasons: dict[str, str] = dict.fromkeys(ALL_LAYERS, "this is not Linux")
    linux = sys.platform == "linux"
    if linux:
        try:
            server = ForkServerHandle(call_driver.__name__, torch=False, layers=ALL_LAYERS)
            held, reasons = server.layers, server.missing
            server.close()
        except EvaluatorError as error:
            reasons = dict.fromkeys(ALL_LAYERS, str(error).strip())
    findings = []
    for layer in ALL_LAYERS:
        detail = "holds: a worker tried to break it" if layer in held else lack(layer, reasons)
        findings.append(Finding(layer, layer in held, detail, layer in DEFAULT_MINIMUM))
    for name, torch in (("numpy workers", False), ("torch workers", True)):
        if torch and find_spec("torch") is None:
            detail = "torch is not installed; the Burgers environment needs it"
            findings.append(Finding(name, False, detail))
            continue
        try:
            seconds = cold_start_seconds(torch, ALL_LAYERS if linux else ())
        except EvaluatorError as error:
            findings.append(Finding(name, False, str(error).strip()))
        else:
            findings.append(Finding(name, True, f"start in {1000 * median(seconds):.1f} ms"))
    pinning = hasattr(os, "sched_setaffinity")
    pinned = Finding("one core for both", pinning, "" if pinning else "steps are slower than they could be")
    return [*findings, pinned, _secret()]


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
