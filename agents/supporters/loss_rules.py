"""Rules for programs that return a loss made of several terms (the PINN task).

A term's family is told by the words in it: boundary, initial condition, residual. Where the environment
reports how large each term stayed, the rule raises what stayed large; otherwise it varies all of them alike.
"""

import ast
import re
from collections.abc import Iterator

from atlas_gym.agents.supporters.code_rules import Case, Finding, short

_FAMILIES = {
    "boundary": re.compile(r"(^|_)(bc|boundary)"),
    "initial": re.compile(r"(^|_)(ic|initial)"),
    "residual": re.compile(r"(^|_)(res|pde|r$)"),
}


def check_terms(case: Case) -> Iterator[Finding]:
    """Terms without a weight, and terms that stayed large."""
    terms = loss_terms(case)
    if len(terms) < 2:
        return
    largest = _largest_family(case)
    for node, family in terms:
        weighted = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        if not family or (weighted and family != largest):
            continue
        low, high = (0.1, 10.0) if family == "residual" else (2.0, 50.0)
        weight = short(case.factor(max(1.5, low) if family == largest else low, high))
        splice = case.code.wrap(node, f"{weight} * ", "")
        message = f"The {family} term counts as much per unit as the others, whatever its scale."
        if family == largest:
            message = f"The {family} term stayed the largest."
        yield Finding("balance", message, 4.0 if family == largest else 2.0, ((splice,),))


def check_unused(case: Case) -> Iterator[Finding]:
    """Errors that are handed in and never enter the loss."""
    terms = loss_terms(case)
    used = case.code.names(case.code.function)
    for name in case.code.arguments:
        if terms and _family({name}) and name not in used:
            splice = case.code.wrap(terms[-1][0], "", f" + torch.mean({name} ** 2)")
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
    for node, family in loss_terms(case):
        if family in ("boundary", "initial"):
            start = short(case.factor(3, 50))
            ramp = f'{start} ** (1 - extras["epoch"] / extras["n_epochs"]) * '
            message = f"The {family} term weighs the same early and late; fitting it first anchors the rest."
            yield Finding("schedule", message, 1.0, ((code.wrap(node, ramp, ""),),))


def loss_terms(case: Case) -> list[tuple[ast.expr, str]]:
    """Summands of the returned expression, and the family of each: empty if its words say nothing. A returned variable
    and a summand that is one are looked up once."""
    returned = [node.value for node in case.code.nodes(ast.Return) if node.value is not None]
    assigned = {name: statement.value for statement, name in case.code.assignments}

    def meant(node: ast.expr) -> ast.expr:
        return assigned.get(node.id, node) if isinstance(node, ast.Name) else node

    terms = [node for value in returned[-1:] for node in _summands(meant(value))]
    names = case.code.names
    return [(node, _family(names(node)) or _family(names(meant(node)))) for node in terms]


def _summands(value: ast.expr) -> list[ast.expr]:
    found, pending = [], [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            pending += [node.right, node.left]
        else:
            found.append(node)
    return found


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
