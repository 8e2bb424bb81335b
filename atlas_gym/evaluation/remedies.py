"""What to do about a confinement layer that a machine does not give."""

from collections.abc import Mapping, Sequence

REMEDIES = {
    "capabilities": "run as an ordinary user, or allow the capset system call",
    "no_new_privs": "use Linux 3.5 or newer, and allow the prctl system call",
    "landlock": "use Linux 5.13 or newer with Landlock among its security modules (boot option"
    " lsm=landlock,...), install the package landlockpy, and in a container allow the landlock_* calls",
    "rlimits": "use Linux with /proc mounted",
    "seccomp": "use Linux on x86-64 or ARM64 with CONFIG_SECCOMP_FILTER, install the package seccompy, and in"
    " a container allow the seccomp system call",
}
"""By layer."""

UNCONFINED_HINT = (
    "Only for programs you trust: ask for the unconfined evaluator (UnconfinedEvaluator) by name."
)

BLAMELESS = (
    "The machine is to blame, not the program, which has no score. Check its free memory, its load and its limits"
    " on processes and open files, or evaluate fewer programs at a time; `python -m atlas_gym doctor` examines it."
)
"""What to say of an evaluation that the machine spoiled."""


def explain(lacking: Sequence[str], reasons: Mapping[str, str]) -> str:
    """The error text for layers that are required and not there; `reasons` by layer where one is known."""
    lines = [f"this machine does not give the required confinement layers {', '.join(lacking)}:"]
    for layer in lacking:
        reason = reasons.get(layer, "it was put on, but does not hold")
        lines.append(f"- {layer}: {reason}. To fix: {REMEDIES[layer]}.")
    lines.append("`python -m atlas_gym doctor` lists what there is. " + UNCONFINED_HINT)
    return "\n".join(lines)
