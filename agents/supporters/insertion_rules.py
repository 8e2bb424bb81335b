"""Rules for a line of its own: a variable that has just been computed is changed once more before it is used.

They are what a supporter teaches with where one of the agent's prompts asks for a new line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agents.supporters.code_rules import Case, Finding, Fix, sampled, short
from agents.supporters.expression_rules import (
    FUNCTIONS,
    call_around,
    finding,
    is_count,
    keep_per_step,
    sample_products,
)


def check_scaling(case: Case) -> Iterator[Finding]:
    """Every variable, times a factor."""
    fixes = []
    for statement, name in _variables(case):
        factor = short(case.factor(0.05, 10.0))
        fixes.append(_line(case, statement, f"{name} = {factor} * {name}", f"scale {name} by {factor}"))
    yield from finding("scale", 2.0, fixes)


def check_wrapping(case: Case) -> Iterator[Finding]:
    """Every variable, within a function of one argument."""
    fixes = []
    for statement, name in _variables(case):
        function = FUNCTIONS[case.rng.integers(len(FUNCTIONS))]
        before, after = call_around(case.code, function)
        fixes.append(_line(case, statement, f"{name} = {before}{name}{after}", f"apply {function}"))
    yield from finding("wrap", 1.0, fixes)


def check_fading(case: Case) -> Iterator[Finding]:
    """Arrays of past data that are multiplied as ``X.T @ y``: a sample fades with its age."""
    rows, entries = _factors(case)
    fixes = []
    for statement, name in _variables(case):
        if name in rows | entries:
            keep = keep_per_step(case)
            ages = f"{keep} ** np.arange(len({name}))[::-1]"
            weights = f"({ages})[:, None]" if name in rows else ages
            reason = f"weigh a sample by {keep} per step of age"
            fixes.append(_line(case, statement, f"{name} = {name} * {weights}", reason))
    yield from finding("fade", 3.0, fixes)


def check_slices(case: Case) -> Iterator[Finding]:
    """Whatever is read off past data as it stands, cut to the latest entries all at once."""
    arrays = sampled(case)
    found = [
        (statement, name)
        for statement, name in _variables(case)
        if name in arrays and isinstance(statement.value, ast.Attribute | ast.Subscript)
    ]
    if found:
        window = int(case.factor(4, 80))
        names = list(dict.fromkeys(name for _, name in found))
        cut = f"{', '.join(names)} = {', '.join(f'{name}[-{window}:]' for name in names)}"
        yield from finding(
            "slice", 2.5, [_line(case, found[-1][0], cut, f"use the last {window} samples only")]
        )


def _line(case: Case, statement: ast.stmt, text: str, reason: str) -> Fix:
    return Fix((case.code.below(statement, text),), reason)


def _variables(case: Case) -> list[tuple[ast.Assign, str]]:
    """Assignments of one variable, and its name; bare numbers, texts and counts are none that a function fits."""
    return [
        (statement, target.id)
        for statement in case.code.nodes(ast.Assign)
        for target in statement.targets[:1]
        if isinstance(target, ast.Name)
        if not (isinstance(statement.value, ast.Constant) or is_count(statement.value))
    ]


def _factors(case: Case) -> tuple[set[str], set[str]]:
    """Names of the arrays of past data in products over samples: with a row for each, and with a number for each."""
    arrays = sampled(case)
    products = sample_products(case)
    rows = {samples for _, samples in products}
    entries = {node.right.id for node, _ in products if isinstance(node.right, ast.Name)} - rows
    return rows & arrays, entries & arrays
