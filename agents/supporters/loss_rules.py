"""Rules for programs that return a loss made of several terms (the PINN task).

A term's family is told by the words in it: boundary, initial condition, residual. Where the environment
reports how large each term stayed, the rule raises what stayed large; otherwise it varies all of them alike.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from agents.supporters.code_rules import Case, Finding, short

_FAMILIES = {
    "boundary": re.compile(r"(^|_)(bc|boundary)"),
    "initial": re.compile(r"(^|_)(ic|initial)"),
    "residual": re.compile(r"(^|_)(res|pde|r$)"),
}


@dataclass(frozen=True)
class Term:
    """One summand of the returned loss."""

    node: ast.expr
    """Its place where the sum is written."""
    family: str
    """``boundary``, ``initial``, ``residual``, or empty if its words say nothing."""
    weighted: bool
    """Whether it is a product already."""


def check_terms(case: Case) -> Iterator[Finding]:
    """Terms without a weight, and terms that stayed large."""
    terms = loss_terms(case)
    if len(terms) < 2:
        return
    largest = _largest_family(case)
    for term in terms:
        if not term.family or (term.weighted and term.family != largest):
            continue
        low, high = (0.1, 10.0) if term.family == "residual" else (2.0, 50.0)
        weight = short(case.factor(max(1.5, low) if term.family == largest else low, high))
        splice = case.code.wrap(term.node, f"{weight} * ", "")
        message = f"The {term.family} term counts as much per unit as the others, whatever its scale."
        if term.family == largest:
            message = f"The {term.family} term stayed the largest."
        yield Finding("balance", message, 4.0 if term.family == largest else 2.0, ((splice,),))


def check_unused(case: Case) -> Iterator[Finding]:
    """Errors that are handed in and never enter the loss."""
    terms = loss_terms(case)
    used = case.code.names(case.code.function)
    for name in case.code.arguments:
        if terms and _family({name}) and name not in used:
            splice = case.code.wrap(terms[-1].node, "", f" + torch.mean({name} ** 2)")
            yield Finding("dropped", f"{name} is not in the loss.", 4.0, ((splice,),))


def check_squares(case: Case) -> Iterator[Finding]:
    """Squared residuals: outliers near a shock dominate them."""
    code, urgent = case.code, 1.5 if case.failed_with("diverge", "nan", "finite", "explod") else 1.0
    for node in code.nodes(ast.BinOp):
        if not (
            isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) and node.right.value == 2
        ):
            continue
        if _family(code.names(node.left)) != "residual":
            continue
        inner = code.text(node.left)
        fixes = [
            (code.replace(node, f"(torch.sqrt(1 + ({inner}) ** 2) - 1)"),),  # linear far out (Huber)
            (code.replace(node.left, f"({inner} / ({inner}.detach().std() + 1e-3))"),),
        ]
        if "extras" in code.arguments and "u_x" not in code.text(code.function):
            steep = short(case.factor(0.1, 2))  # points in steep regions are trusted less
            divisor = f'(1 + {steep} * extras["u_x"].abs())'
            fixes.append((code.replace(node.left, f"({inner} / {divisor})"),))
        yield Finding("square", "A squared residual lets the few points at a shock outweigh all others.",
                      2.5 * urgent, tuple(fixes))  # fmt: skip


def check_schedule(case: Case) -> Iterator[Finding]:
    """Weights that stay the same from the first step to the last."""
    code = case.code
    if "extras" not in code.arguments or "epoch" in code.text(code.function):
        return
    for term in loss_terms(case):
        if term.family in ("boundary", "initial"):
            start = short(case.factor(3, 50))
            ramp = f'{start} ** (1 - extras["epoch"] / extras["n_epochs"]) * '
            message = (
                f"The {term.family} term weighs the same early and late; fitting it first anchors the rest."
            )
            yield Finding("schedule", message, 1.0, ((code.wrap(term.node, ramp, ""),),))


def loss_terms(case: Case) -> list[Term]:
    """Summands of the returned expression, a returned variable looked up once."""
    returns = [node for node in case.code.nodes(ast.Return) if node.value is not None]
    if not returns:
        return []
    value = returns[-1].value
    assigned = {name: statement.value for statement, name in case.code.assignments}
    if isinstance(value, ast.Name) and value.id in assigned:
        value = assigned[value.id]
    return [_term(case, node, assigned) for node in _summands(value)] if value is not None else []


def _summands(value: ast.expr) -> list[ast.expr]:
    found, pending = [], [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            pending += [node.right, node.left]
        else:
            found.append(node)
    return found


def _term(case: Case, node: ast.expr, assigned: dict[str, ast.expr]) -> Term:
    names = case.code.names(node)
    family = _family(names)
    if not family and isinstance(node, ast.Name) and node.id in assigned:
        family = _family(case.code.names(assigned[node.id]))
    return Term(node, family, isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult))


def _family(names: set[str]) -> str:
    found = {
        family for family, words in _FAMILIES.items() if any(words.search(name.lower()) for name in names)
    }
    return found.pop() if len(found) == 1 else ""


def _largest_family(case: Case) -> str:
    """Family of the largest loss term that the environment reports (``residual_term`` and the like); empty if
    it reports fewer than two."""
    metrics = case.request.parent.metrics
    sizes = {_family({name}): value for name, value in metrics.items() if name.endswith("_term")}
    sizes.pop("", None)
    return max(sizes, key=lambda family: sizes[family]) if len(sizes) > 1 else ""
