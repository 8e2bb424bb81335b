"""Rules for expressions: the terms of a loss, and any expression at the edit site of a prompt.

A loss term's family (boundary, initial condition, residual) is told by the words in it. Where the environment reports
how large each term stayed, the rule raises what stayed large; otherwise it varies all of them alike.

The rules for any expression are what the supporter teaches with, and know of no task. Some are for tasks that declare
past data: cutting it short and letting it fade.
"""

import ast
import copy
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.supporters import program_rules as program
from atlas_gym.agents.supporters.program_rules import Case, Finding, Fix, Rule, short

_FAMILIES = {
    "boundary": re.compile(r"(^|_)(bc|boundary)"),
    "initial": re.compile(r"(^|_)(ic|initial)"),
    "residual": re.compile(r"(^|_)(res|pde|r$)"),
}

_COUNTS = {"int", "len", "range", "list", "tuple", "dict", "bool", "str", "float", "enumerate", "zip"}

_LINEAR = 0.4
"""Probability that samples fade linearly with their age, not by a constant factor, if `wider`."""

_FUNCTIONS = (
    "{library}.sqrt({library}.abs({argument}))", "{library}.log1p({argument})", "{library}.tanh({argument})",
    "{library}.abs({argument})", "{argument} ** 2", "{library}.clip({argument}, -1.0, 1.0)",
)  # fmt: skip


def _rule(kind: str, priority: float) -> Callable[[Callable[[Case], Iterator[Fix]]], Rule]:
    """Makes a rule, of this name and priority, of a function that yields fixes."""

    def made(fixes: Callable[[Case], Iterator[Fix]]) -> Rule:
        def check(case: Case) -> Iterator[Finding]:
            if found := tuple(fixes(case)):
                yield Finding(kind, "", priority, found)

        return check

    return made


def check_terms(case: Case) -> Iterator[Finding]:
    """Terms without a weight, and terms that stayed large."""
    terms = loss_terms(case)
    if len(terms) < 2:
        return
    # What stayed largest, where the environment reports two terms or more (``residual_term`` and the like).
    sizes = {_family({name}): value for name, value in case.metrics.items() if name.endswith("_term")}
    sizes.pop("", None)
    largest = max(sizes, key=lambda family: sizes[family]) if len(sizes) > 1 else ""
    for node, family in terms:
        weighted = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        large = family == largest
        if not family or (weighted and not large):
            continue
        low, high = (0.1, 10.0) if family == "residual" else (2.0, 50.0)
        weight = short(case.factor(max(1.5, low) if large else low, high))
        message = f"The {family} term counts as much per unit as the others, whatever its scale."
        if large:
            message = f"The {family} term stayed the largest."
        fix = (case.code.wrap(node, f"{weight} * ", ""),)
        yield Finding("balance", message, 4.0 if large else 2.0, (fix,))


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
        squared = (
            isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) and node.right.value == 2
        )
        if not squared or _family(code.names(node.left)) != "residual":
            continue
        inner = code.text(node.left)
        fixes = [
            (code.replace(node, f"(torch.sqrt(1 + ({inner}) ** 2) - 1)"),),  # linear far out (Huber)
            (code.replace(node.left, f"({inner} / ({inner}.detach().std() + 1e-3))"),),
        ]
        if "extras" in code.arguments and "u_x" not in code.text(code.function):
            steep = short(case.factor(0.1, 2))  # points in steep regions are trusted less
            fixes.append((code.replace(node.left, f'({inner} / (1 + {steep} * extras["u_x"].abs()))'),))
        message = "A squared residual lets the few points at a shock outweigh all others."
        yield Finding("square", message, 2.5 * urgent, tuple(fixes))


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
    """Summands of the returned expression, each with its family, empty if its words say nothing. A returned variable
    and a summand that is one are looked up once."""
    names = case.code.names
    assigned = {name: statement.value for statement, name in case.code.assignments}

    def meant(node: ast.expr) -> ast.expr:
        return assigned.get(node.id, node) if isinstance(node, ast.Name) else node

    returned = [node.value for node in case.code.nodes(ast.Return) if node.value is not None]
    found, pending = [], [meant(value) for value in returned[-1:]]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            pending += [node.right, node.left]
        else:
            found.append((node, _family(names(node)) or _family(names(meant(node)))))
    return found


def _family(names: set[str]) -> str:
    found = [
        family for family, words in _FAMILIES.items() if any(words.search(name.lower()) for name in names)
    ]
    return found[0] if len(found) == 1 else ""


@_rule("scale", 3.0)
def check_summands(case: Case) -> Iterator[Fix]:
    """Every side of a sum, and every right side, without a constant factor: with one."""
    code = case.code
    found = [side for node in _sums(code) for side in (node.left, node.right)] + _right_sides(code)
    for node in {code.place(node): node for node in found}.values():
        scalable = isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
        if isinstance(node, ast.Call):
            scalable = not _is_count(node)
        elif isinstance(node, ast.BinOp):
            multiplies = isinstance(node.op, ast.Mult | ast.Div | ast.MatMult | ast.Pow)
            scalable = multiplies and not isinstance(node.left, ast.Constant)
        if scalable:
            yield (code.wrap(node, f"{short(case.factor(0.05, 10.0))} * ", ""),)


@_rule("drop", 0.7)
def check_drops(case: Case) -> Iterator[Fix]:
    """Every sum or difference: without one of its sides."""
    for node in _sums(case.code):
        for kept in (node.left, node.right):
            yield (case.code.replace(node, case.code.text(kept)),)


@_rule("wrap", 1.0)
def check_wraps(case: Case) -> Iterator[Fix]:
    """Every variable and call that is a value on its own: within a function of one argument."""
    code = case.code
    for node in chain.from_iterable(map(ast.walk, _right_sides(code))):
        if not isinstance(node, ast.Name | ast.Call) or _is_count(node):
            continue
        parent = code.parents[node]
        part = isinstance(parent, ast.Attribute | ast.Subscript | ast.keyword | ast.Slice | ast.UnaryOp)
        if part or (isinstance(parent, ast.Call) and (parent.func is node or _is_count(parent))):
            continue
        function = _FUNCTIONS[case.rng.integers(len(_FUNCTIONS))]
        yield (code.replace(node, function.format(library=case.library, argument=code.text(node))),)


@_rule("slice", 2.5)
def check_slices(case: Case) -> Iterator[Fix]:
    """Arrays of past data: cut to the latest entries, those of one expression together or all of the program."""
    code, found = case.code, []
    window = int(case.factor(4, 80))
    for value in _right_sides(code):
        names = [n for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in case.sampled]
        uses = [n for n in names if not isinstance(code.parents[n], ast.Subscript)]
        if uses:
            found.append(tuple(code.wrap(n, "", f"[-{window}:]") for n in uses))
    yield from found
    if len(found) > 1:
        yield tuple(chain.from_iterable(found))


@_rule("fade", 3.0)
def check_fading(case: Case) -> Iterator[Fix]:
    """Products ``X.T @ y`` over samples: one side fades with a sample's age, in the product or where it is read."""
    code = case.code
    products = [(node, x.id) for node, x in case.sample_products if isinstance(x, ast.Name)]
    matrices = {samples for _, samples in products} & case.sampled
    vectors = {node.right.id for node, _ in products if isinstance(node.right, ast.Name)} & case.sampled

    def fade(node: ast.expr, samples: str, rows: bool = False) -> Fix:
        if case.wider and case.rng.random() < _LINEAR:
            weights = f"np.linspace({short(case.factor(0.01, 0.6))}, 1.0, len({samples}))"
        else:
            keep = short(1 - case.factor(0.01, 0.3))
            weights = f"{keep} ** np.arange(len({samples}))[::-1]"
        weights = f"({weights})[:, None]" if rows else weights
        inner = isinstance(code.parents[node], ast.expr)
        return (code.wrap(node, "(" if inner else "", f" * {weights}" + (")" if inner else "")),)

    for node, samples in products:
        yield fade(node.left, samples)
        if isinstance(node.right, ast.Name) and node.right.id != samples:
            yield fade(node.right, samples)
    for statement in code.nodes(ast.Assign):
        names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
        if names & (matrices | vectors):
            yield fade(statement.value, code.text(statement.value), bool(names & matrices))


@_rule("recent", 2.5)
def check_recent(case: Case) -> Iterator[Fix]:
    """A variable computed of past data: where it is used, computed anew of the latest entries, if `wider`."""
    if not case.wider:
        return
    code, arrays = case.code, case.sampled
    window = int(case.factor(4, 80))

    class Cut(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.parse(f"{node.id}[-{window}:]", mode="eval").body if node.id in arrays else node

        def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
            return node  # an entry, or cut already

    latest = {}
    for statement, name in code.assignments:
        value = statement.value
        of_past_data = any(isinstance(node, ast.Name) and node.id in arrays for node in ast.walk(value))
        if of_past_data and not _is_count(value):
            try:
                latest[name] = ast.unparse(Cut().visit(copy.deepcopy(value)))
            except RecursionError:  # nested too deep for this
                latest[name] = ""
    for node in chain.from_iterable(map(ast.walk, _right_sides(code))):
        if isinstance(node, ast.Name) and latest.get(node.id) and node.id not in arrays:
            alone = isinstance(code.parents[node], ast.Call | ast.Assign | ast.Return)
            yield (code.replace(node, latest[node.id] if alone else f"({latest[node.id]})"),)


def _right_sides(code: Source) -> list[ast.expr]:
    """Assigned and returned expressions, facts about shapes left out."""
    values = [node.value for node in code.nodes(ast.Assign) if not isinstance(node.targets[0], ast.Tuple)]
    values += [node.value for node in code.nodes(ast.AugAssign)]
    return values + [node.value for node in code.nodes(ast.Return) if node.value is not None]


def _sums(code: Source) -> list[ast.BinOp]:
    return [node for node in code.nodes(ast.BinOp) if isinstance(node.op, ast.Add | ast.Sub)]


def _is_count(node: ast.expr) -> bool:
    """True for a call whose value is no quantity: a factor breaks it."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COUNTS


Rules = Mapping[str, tuple[Rule, ...]]
"""Rules by the trait that a task declares of its programs; those of no trait are for any program."""

ANYWHERE: Rules = {
    "": (program.check_constants, program.check_roots, program.check_quotients),
    "drift": (program.check_forgetting, program.check_products),
    "memory": (program.check_history, program.check_memory),
    "regression": (program.check_singular, program.check_ridge),
    "choice": (program.check_exploration,),
    "loss": (check_terms, check_unused, check_squares, check_schedule),
}
"""Rules for a program as a whole."""

AT_A_SITE: Rules = {
    **ANYWHERE,
    "": (*ANYWHERE[""], check_summands, check_drops, check_wraps),
    "memory": (*ANYWHERE["memory"], check_slices, check_recent),
    "drift": (*ANYWHERE["drift"], check_fading),
}
"""Rules where the supporter answers one of the agent's prompts: those, and rules for any expression."""


def findings(case: Case, rules: Rules) -> list[Finding]:
    """Findings of the rules of the task's traits, in the order of the table."""
    asked = chain.from_iterable(checks for trait, checks in rules.items() if trait in {"", *case.traits})
    return list(chain.from_iterable(check(case) for check in asked))
