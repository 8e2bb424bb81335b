"""Rules for what one of the agent's prompts leaves open: small changes of an expression, whatever it computes.

They are what a supporter teaches with: its answer to a prompt changes one expression, or a few, and these rules know of
no task. Some are for tasks that declare past data: cutting it short and letting it fade.
"""

import ast
import copy
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from itertools import chain

from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.supporters.code_rules import Case, Finding, Fix, sample_products, sampled, short

_COUNTS = {"int", "len", "range", "list", "tuple", "dict", "bool", "str", "float", "enumerate", "zip"}
"""Calls whose value is no quantity: a factor breaks it."""

_LINEAR = 0.4
"""Probability that samples fade in a straight line with their age, not by a constant factor, if `wider`."""

_FUNCTIONS = (
    "{library}.sqrt({library}.abs({argument}))", "{library}.log1p({argument})", "{library}.tanh({argument})",
    "{library}.abs({argument})", "{argument} ** 2", "{library}.clip({argument}, -1.0, 1.0)",
)  # fmt: skip
"""Functions of one argument."""

Fixes = Callable[[Case], Iterator[Fix]]


def _rule(kind: str, priority: float) -> Callable[[Fixes], Callable[[Case], Iterator[Finding]]]:
    """Makes a rule, of this name and priority, of a function that says what can be changed."""

    def made(fixes: Fixes) -> Callable[[Case], Iterator[Finding]]:
        @wraps(fixes)
        def check(case: Case) -> Iterator[Finding]:
            if found := tuple(fixes(case)):
                yield Finding(kind, "", priority, found)

        return check

    return made


@_rule("scale", 3.0)
def check_summands(case: Case) -> Iterator[Fix]:
    """Every summand, with a factor."""
    for node in _summands(case.code):
        yield (case.code.wrap(node, f"{short(case.factor(0.05, 10.0))} * ", ""),)


@_rule("drop", 0.7)
def check_drops(case: Case) -> Iterator[Fix]:
    """Every sum or difference, without one of its sides."""
    for node in _sums(case.code):
        for kept in (node.left, node.right):
            yield (case.code.replace(node, case.code.text(kept)),)


@_rule("wrap", 1.0)
def check_wraps(case: Case) -> Iterator[Fix]:
    """Every variable and call, within a function of one argument."""
    code = case.code
    for value in _right_sides(code):
        for node in ast.walk(value):
            if isinstance(node, ast.Name | ast.Call) and _is_quantity(code, node):
                yield (code.replace(node, _function_of(case, code.text(node))),)


@_rule("slice", 2.5)
def check_slices(case: Case) -> Iterator[Fix]:
    """Arrays of past data, cut to the latest entries: those of one expression together, or all of the program."""
    code = case.code
    found: list[Fix] = []
    window = int(case.factor(4, 80))
    arrays = sampled(case)
    for value in _right_sides(code):
        names = [n for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in arrays]
        uses = [n for n in names if not isinstance(code.parents[n], ast.Subscript)]
        splices = tuple(code.wrap(n, "", f"[-{window}:]") for n in uses)
        if splices:
            found.append(splices)
    yield from found
    if len(found) > 1:
        yield tuple(chain.from_iterable(found))


@_rule("fade", 3.0)
def check_fading(case: Case) -> Iterator[Fix]:
    """Products ``X.T @ y`` over samples, one at a time: either side fades with a sample's age, in the product itself or
    where it is read off past data."""
    code = case.code
    matrices, vectors = _factors(case)

    def fade(node: ast.expr, samples: str, rows: bool = False) -> Fix:
        weights = _fading(case, samples, rows)
        inner = isinstance(code.parents[node], ast.expr)
        return (code.wrap(node, "(" if inner else "", f" * {weights}" + (")" if inner else "")),)

    for node, samples in _named_products(case):
        yield fade(node.left, samples)
        if isinstance(node.right, ast.Name) and node.right.id != samples:
            yield fade(node.right, samples)
    for statement in code.nodes(ast.Assign):
        names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
        if names & (matrices | vectors):
            yield fade(statement.value, code.text(statement.value), bool(names & matrices))


@_rule("recent", 2.5)
def check_recent(case: Case) -> Iterator[Fix]:
    """A variable computed of past data: where it is used, computed anew of the latest entries alone. If `wider`."""
    if not case.wider:
        return
    code, arrays = case.code, sampled(case)
    window = int(case.factor(4, 80))
    latest = {
        name: _cut(statement.value, arrays, window)
        for statement, name in _variables(case)
        if any(isinstance(node, ast.Name) and node.id in arrays for node in ast.walk(statement.value))
    }
    for value in _right_sides(code):
        for node in ast.walk(value):
            if isinstance(node, ast.Name) and latest.get(node.id) and node.id not in arrays:
                text = latest[node.id]
                yield (code.replace(node, text if _stands_alone(code, node) else f"({text})"),)


def _variables(case: Case) -> list[tuple[ast.Assign, str]]:
    """Assignments of one variable, and its name; bare numbers, texts and counts are none that a function fits."""
    return [
        (statement, name)
        for statement, name in case.code.assignments
        if not (isinstance(statement.value, ast.Constant) or _is_count(statement.value))
    ]


def _factors(case: Case) -> tuple[set[str], set[str]]:
    """Names of the arrays of past data in products over samples: with a row for each, and with a number for each."""
    arrays = sampled(case)
    products = _named_products(case)
    rows = {samples for _, samples in products}
    entries = {node.right.id for node, _ in products if isinstance(node.right, ast.Name)} - rows
    return rows & arrays, entries & arrays


def _named_products(case: Case) -> list[tuple[ast.BinOp, str]]:
    """Products ``X.T @ y`` over samples that have a name, and this name."""
    return [(node, samples.id) for node, samples in sample_products(case) if isinstance(samples, ast.Name)]


def _fading(case: Case, samples: str, rows: bool) -> str:
    """Source text of weights that fall with the age of these samples, each a row or a number."""
    if case.wider and case.rng.random() < _LINEAR:
        ages = f"np.linspace({short(case.factor(0.01, 0.6))}, 1.0, len({samples}))"
    else:
        keep = short(1 - case.factor(0.01, 0.3))
        ages = f"{keep} ** np.arange(len({samples}))[::-1]"
    return f"({ages})[:, None]" if rows else ages


def _cut(value: ast.expr, arrays: Collection[str], window: int) -> str:
    """Source text of an expression with its arrays of past data cut to the latest entries; empty if it is nested too
    deep for this."""

    class Cut(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.parse(f"{node.id}[-{window}:]", mode="eval").body if node.id in arrays else node

        def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
            return node  # an entry, or cut already

    try:
        return ast.unparse(Cut().visit(copy.deepcopy(value)))
    except RecursionError:
        return ""


def _stands_alone(code: Source, node: ast.expr) -> bool:
    """Whether an expression is an argument or a whole right side, so that it needs no parentheses."""
    return isinstance(code.parents[node], ast.Call | ast.Assign | ast.Return)


def _right_sides(code: Source) -> list[ast.expr]:
    """What is assigned or returned, facts about shapes left out."""
    values = [
        statement.value
        for statement in code.nodes(ast.Assign)
        if not isinstance(statement.targets[0], ast.Tuple)
    ]
    values += [statement.value for statement in code.nodes(ast.AugAssign)]
    return values + [node.value for node in code.nodes(ast.Return) if node.value is not None]


def _sums(code: Source) -> list[ast.BinOp]:
    return [node for node in code.nodes(ast.BinOp) if isinstance(node.op, ast.Add | ast.Sub)]


def _summands(code: Source) -> list[ast.expr]:
    """Sides of sums, and right sides that are none, which have no constant factor yet."""
    found = [side for node in _sums(code) for side in (node.left, node.right)] + _right_sides(code)
    distinct = {code.place(node): node for node in found}
    return [node for node in distinct.values() if _is_scalable(node)]


def _is_scalable(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return not _is_count(node)
    if isinstance(node, ast.BinOp):
        multiplies = isinstance(node.op, ast.Mult | ast.Div | ast.MatMult | ast.Pow)
        return multiplies and not isinstance(node.left, ast.Constant)
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript)


def _is_quantity(code: Source, node: ast.Name | ast.Call) -> bool:
    """Whether a variable or a call is a value on its own: no module, no function's name, no index, no count."""
    parent = code.parents[node]
    if isinstance(parent, ast.Attribute | ast.Subscript | ast.keyword | ast.Slice | ast.UnaryOp):
        return False
    if isinstance(parent, ast.Call) and (parent.func is node or _is_count(parent)):
        return False
    return not _is_count(node)


def _is_count(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COUNTS


def _function_of(case: Case, argument: str) -> str:
    """Source text of one of the functions of this argument, drawn at random."""
    return _FUNCTIONS[case.rng.integers(len(_FUNCTIONS))].format(library=case.library, argument=argument)
