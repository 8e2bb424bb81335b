"""Rules that vary a program as a whole: its constants, how it forgets, its arithmetic.

A rule maps a case to findings. It varies what the agent wrote and holds no program of its own that it could insert. The
ranges below are the documented judgement of this form of the supporter; none of them looks at an expert program.
"""

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.agents.proposals.constants import Constant, ConstantRole, constants
from atlas_gym.agents.proposals.source import Source, Splice

SUGGESTION_FACTOR = 10.0
"""Another value for a constant lies within this factor of the current one, either way."""


@dataclass(frozen=True)
class Case:
    """One program under examination."""

    code: Source  # the parsed program
    traits: frozenset[str]  # `ProgramTask.traits` of its task
    metrics: Mapping[str, float]  # the environment's measurements of it
    failures: Sequence[Candidate]  # recent failures of programs like it: rules that answer them come first
    rng: np.random.Generator  # the consultation's random stream
    wider: bool = False  # `SupporterSettings.wider_rules`: further kinds of changes are made

    @cached_property
    def library(self) -> str:
        """Numerical library of the program."""
        return "torch" if "torch" in self.code.names(self.code.tree) else "np"

    def failed_with(self, *words: str) -> bool:
        """True if a recent failure's status or text mentions one of the words."""
        texts = [f"{failure.status} {failure.detail}".lower() for failure in self.failures]
        return any(word in text for word in words for text in texts)

    def factor(self, low: float, high: float) -> float:
        """A random factor, uniform in its logarithm, never within 10 % of 1."""
        while True:
            factor = math.exp(self.rng.uniform(math.log(low), math.log(high)))
            if abs(factor - 1) >= 0.1:
                return factor

    @cached_property
    def past(self) -> set[str]:
        """Arguments that may hold past data: all but those that describe the present step."""
        return set(self.code.arguments) - {"context", "t", "extras"}

    @cached_property
    def sampled(self) -> set[str]:
        """Variables that are read off past data."""
        return {
            target.id
            for statement in self.code.nodes(ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name) and self.code.names(statement.value) & self.past
        }

    @cached_property
    def sample_products(self) -> list[tuple[ast.BinOp, ast.expr]]:
        """Products ``X.T @ y`` over samples, each with its X."""
        arrays = self.sampled | self.past
        return [
            (node, node.left.value)
            for node in self.code.nodes(ast.BinOp)
            if isinstance(node.op, ast.MatMult)
            and isinstance(node.left, ast.Attribute)
            and node.left.attr == "T"
            and self.code.names(node.left.value) & arrays
        ]


Fix = tuple[Splice, ...]
"""One way to act on a finding: edits that are made together."""


@dataclass(frozen=True)
class Finding:
    """Observation of a rule."""

    kind: str  # the rule's name
    message: str  # one sentence for the critique
    priority: float  # relative probability that its fixes are tried, > 0
    fixes: tuple[Fix, ...] = ()  # ways to act on it; none if only the agent can


Rule = Callable[[Case], Iterator[Finding]]


_ROLES: Mapping[ConstantRole, tuple[float, float, float, str]] = {
    "window": (0.15, 2.5, 3.0, "fixes how much of the past is used, however fast the world changes."),
    "discount": (0.3, 3.0, 3.0, "sets how fast old data fades."),
    "regularisation": (0.1, 5.0, 1.5, "pulls the estimate to zero; with little data it decides the outcome."),
    "bonus": (0.1, 3.0, 1.5, "sets how much is explored for its own sake."),
    "weight": (0.1, 10.0, 2.0, "is a fixed weight."),
    "other": (0.3, 3.0, 0.5, "was never varied."),
}
"""By a constant's role: range of its factor, priority, and remark. Windows lean to shorter: old data is the usual fault
where the world drifts."""


def check_constants(case: Case) -> Iterator[Finding]:
    """Every tunable constant, with one other value."""
    # Windows of equal length are changed together: arrays cut at different lengths no longer fit.
    groups: dict[object, list[Constant]] = {}
    for index, constant in enumerate(constants(case.code)):
        if constant.role == "regularisation" and "regression" not in case.traits:
            # Where nothing is fitted none is a ridge: what scales an identity matrix masks its diagonal and is as good
            # at any size; by its name alone it is a number like others.
            if not constant.named:
                continue
            constant = replace(constant, role="other")
        tied = constant.role == "window" and not constant.named
        groups.setdefault(("window", constant.value) if tied else index, []).append(constant)
    for constant, *same in groups.values():
        low, high, priority, remark = _ROLES[constant.role]
        old = constant.value
        if constant.role == "discount" and 0 < old < 1:
            value: float | None = min(0.9999, max(0.01, 1 - (1 - old) * case.factor(0.2, 5)))
        elif constant.role == "discount" and old == 1:
            value = 1 - case.factor(0.005, 0.1)
        else:
            proposed = old * case.factor(low, high)
            # `lam = 1` may become 0.4.
            real = constant.role in ("regularisation", "bonus", "weight")
            value = bounded_value(float(old) if real else old, proposed)
        if value is not None:
            fix = tuple(case.code.replace(member.node, short(value)) for member in (constant, *same))
            message = f"{constant.name} = {old} {remark}"
            yield Finding(constant.role, message, priority / (1 if constant.named else 2), (fix,))


def check_forgetting(case: Case) -> Iterator[Finding]:
    """Loops over past data that add up without ever letting go."""
    code = case.code
    for loop in code.nodes(ast.For):
        sums = [s for s in loop.body if isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add)]
        if not sums or not code.names(loop.iter) & case.past:
            continue
        keep = short(1 - case.factor(0.01, 0.1))
        targets = [(s, code.text(s.target)) for s in sums]
        fix = tuple(
            code.replace(s, f"{name} = {keep} * {name} + {_summand(code, s.value)}") for s, name in targets
        )
        message = (
            "Old and new samples are added up with equal weight; where the world drifts, old ones mislead."
        )
        yield Finding("forgetting", message, 3.0, (fix,))


def check_products(case: Case) -> Iterator[Finding]:
    """Products ``X.T @ y`` over samples, in which every sample counts alike."""
    code, products = case.code, case.sample_products
    if products and not code.names(code.function) & {"arange", "decay", "discount", "weights"}:
        keep = short(1 - case.factor(0.01, 0.1))
        fix = tuple(
            code.wrap(node.left, "(", f" * {keep} ** np.arange(len({code.text(samples)}))[::-1])")
            for node, samples in products
        )
        message = "Samples count alike up to the window's edge; where the world drifts, old ones mislead."
        yield Finding("forgetting", message, 3.0, (fix,))


def check_history(case: Case) -> Iterator[Finding]:
    """Loops over an argument as a whole, without a window."""
    for loop in case.code.nodes(ast.For):
        if isinstance(loop.iter, ast.Name) and loop.iter.id in case.past:
            fix = (case.code.wrap(loop.iter, "", f"[-{int(case.factor(8, 120))}:]"),)
            message = f"Every step walks through all of {loop.iter.id}: slow, and blind to change."
            yield Finding(
                "history", message, 4.0 if case.failed_with("timeout", "time limit") else 2.0, (fix,)
            )


def check_singular(case: Case) -> Iterator[Finding]:
    """Inverses and solutions of matrices that nothing keeps regular."""
    code = case.code
    singular = case.failed_with("singular", "linalg")
    if code.names(code.tree) & {"eye", "identity", "pinv", "lstsq"} and not singular:
        return
    for call in code.nodes(ast.Call):
        name = code.text(call.func)
        if name in ("np.linalg.inv", "np.linalg.solve") and call.args:
            matrix, ridge = code.text(call.args[0]), short(case.factor(0.01, 3))
            ridged = f"{_summand(code, call.args[0])} + {ridge} * np.eye(len({matrix}))"
            message = f"{name} of a matrix that nothing keeps regular."
            fix = (code.replace(call.args[0], ridged),)
            yield Finding("regularisation", message, 4.0 if singular else 2.5, (fix,))


def check_ridge(case: Case) -> Iterator[Finding]:
    """A ridge of fixed strength one: an identity matrix without a factor."""
    for call in case.code.nodes(ast.Call):
        parent = case.code.parents[call]
        scaled = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult)
        if case.code.text(call.func) == "np.eye" and not scaled:
            fix = (case.code.wrap(call, f"{short(case.factor(0.05, 5))} * ", ""),)
            message = "The ridge is an identity matrix that was never scaled."
            yield Finding("regularisation", message, 1.5, (fix,))


def check_roots(case: Case) -> Iterator[Finding]:
    """Roots of what may be negative. Patched only once something did leave the real numbers."""
    code = case.code
    for call in code.nodes(ast.Call):
        if code.text(call.func) == "np.sqrt" and len(call.args) == 1:
            inside = call.args[0]
            if not isinstance(inside, ast.Constant) and not code.names(inside) & {"maximum", "abs", "clip"}:
                splice = code.wrap(inside, "np.maximum(", ", 0.0)")
                yield _guard(case, "root", f"{code.text(call)[:60]} is NaN below zero.", splice)


def check_quotients(case: Case) -> Iterator[Finding]:
    """Divisors that no constant keeps away from zero. Patched only once something did go wrong."""
    for node in case.code.nodes(ast.BinOp):
        if isinstance(node.op, ast.Div) and isinstance(node.right, ast.Name | ast.Attribute | ast.Call):
            splice = case.code.wrap(node.right, "(", " + 1e-6)")
            yield _guard(case, "quotient", f"{case.code.text(node)[:60]} can divide by zero.", splice)


def check_memory(case: Case) -> Iterator[Finding]:
    """Past data that is handed in and never read."""
    if "history" in case.code.arguments and "history" not in case.code.names(case.code.function):
        yield Finding("unread", "history is never read: nothing can be learnt from it.", 3.5)


def check_exploration(case: Case) -> Iterator[Finding]:
    """A choice among alternatives that never explores."""
    names = " ".join(case.code.names(case.code.function)).lower()
    explores = any(word in names for word in ("sqrt", "random", "bonus", "normal", "sample", "ucb"))
    if ("argmax" in names or "argmin" in names) and not explores:
        message = "The choice is greedy: nothing rewards an alternative for being uncertain."
        yield Finding("greedy", message, 1.0)


def _summand(code: Source, node: ast.expr) -> str:
    """Source text of a node as a summand: in parentheses if it may bind less tightly."""
    tight = isinstance(node, ast.Name | ast.Call | ast.Constant | ast.Attribute | ast.Subscript)
    if isinstance(node, ast.BinOp):
        tight = isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.MatMult | ast.Pow)
    return code.text(node) if tight else f"({code.text(node)})"


def _guard(case: Case, kind: str, message: str, splice: Splice) -> Finding:
    if case.failed_with("nan", "finite", "zero", "invalid value", "overflow", "domain"):
        return Finding(kind, message, 3.0, ((splice,),))
    return Finding(kind, message, 0.3)


def short(value: float) -> str:
    """Source text of a number with two significant digits, an integer if ``value`` is one."""
    return str(value) if isinstance(value, int) else repr(float(f"{value:.2g}"))


def bounded_value(current: float, proposed: float) -> float | None:
    """``proposed`` moved within :data:`SUGGESTION_FACTOR` of ``current``, sign and integer type kept; None if that
    leaves no other value."""
    if not math.isfinite(proposed) or proposed * current <= 0:
        return None
    low, high = abs(current) / SUGGESTION_FACTOR, abs(current) * SUGGESTION_FACTOR
    size: float = min(max(abs(proposed), low), high)
    if isinstance(current, int):
        size = min(max(round(size), math.ceil(low)), math.floor(high))
    value = size if current > 0 else -size
    return None if value == current else value
