"""The texts for whoever writes programs: what went wrong, where the score was lost, what the limits are.

Everything here that came from a candidate (its error message) was sanitised and shortened by the evaluator.
"""

import re

from atlas_gym.evaluation.result import Evaluation, Limits, Status

_ADVICE = {
    Status.INVALID: "The program could not be loaded.",
    Status.ERROR: "The program raised an error.",
    Status.TIMEOUT: "The program was stopped: it took too long. Do less work per call.",
    Status.MEMORY: "The program was stopped: it used too much memory.",
    Status.VIOLATION: "The program was stopped: it tried what is forbidden (files, network, processes).",
    Status.CRASHED: "The program's process ended before the evaluation did.",
    Status.SCREENED: "The program runs, but others did better on a short task: it was not scored in full.",
}


def limits_text(limits: Limits) -> str:
    """State the limits of one evaluation in a line."""
    return (
        f"{limits.wall_s:g} s of wall-clock time, {limits.cpu_s:g} s of CPU time and {limits.memory_mb} MB "
        f"of memory for the whole evaluation; {limits.source_chars} characters of source."
    )


def feedback_text(evaluation: Evaluation, limits: Limits) -> str:
    """Say how a program did: its score and where it lost, or why it failed and what the limits are."""
    if evaluation.ok:
        normalized = evaluation.metrics.get("normalized_score")
        scale = "" if normalized is None else f" (normalized {normalized:.3f})"
        headline = f"Status: ok. Score {evaluation.score:.4f}{scale}."
        return f"{headline}\n{evaluation.diagnosis}".rstrip()
    lines = [f"Status: {evaluation.status}. {_ADVICE[evaluation.status]}"]
    if evaluation.detail:
        lines.append(evaluation.detail)
    lines.append(f"Limits: {limits_text(limits)}")
    return "\n".join(lines)


def code_block(program: str) -> str:
    """Fence a program for a prompt, with more backticks than it holds in a row: nothing in it ends the block."""
    longest = max(map(len, re.findall("`+", program)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{program.rstrip()}\n{fence}"
