"""Rules for what one of the agent's prompts leaves open: small changes of an expression, whatever it computes, or a
line of its own, where a variable that has just been computed is changed once more before it is used.

They are what a supporter teaches with: its answer to a prompt changes one expression, or a few, or adds one line, and
these rules know of no task. Some are for tasks that declare past data: cutting it short and letting it fade.
"""

import ast
import copy
from collections.abc import Collection, Iterator, Sequence

from agents.proposals.source import Source, Splice
from agents.supporters.code_rules import Case, Finding, Fix, sample_products, sampled, short

_COUNTS = {"int", "len", "range", "list", "tuple", "dict", "bool", "str", "float", "enumerate", "zip"}
"""Calls whose value is no quantity: a factor breaks it."""

_LINEAR = 0.4
"""Probability that samples fade in a straight line with their age, not by a constant factor, if `wider`."""

_FUNCTIONS = ("sqrt(abs)", "log1p", "tanh", "abs", "square", "clip")


def check_summands(case: Case) -> Iterator[Finding]:
    """Every summand, with a factor."""
    fixes = []
    for node in _summands(case.code):
        factor = short(case.factor(0.05, 10.0))
        fixes.append((case.code.wrap(node, f"{factor} * ", ""),))
    yield from _finding("scale", 3.0, fixes)


def check_drops(case: Case) -> Iterator[Finding]:
    """Every sum or difference, without one of its sides."""
    code = case.code
    fixes = [
        (code.replace(node, code.text(kept)),) for node in _sums(code) for kept in (node.left, node.right)
    ]
    yield from _finding("drop", 0.7, fixes)


def check_wraps(case: Case) -> Iterator[Finding]:
    """Every variable and call, within a function of one argument."""
    code, fixes = case.code, []
    for value in _right_sides(code):
        for node in ast.walk(value):
            if isinstance(node, ast.Name | ast.Call) and _is_quantity(code, node):
                name = _FUNCTIONS[case.rng.integers(len(_FUNCTIONS))]
                fixes.append((code.wrap(node, *_call_around(code, name)),))
    yield from _finding("wrap", 1.0, fixes)


def check_slices(case: Case) -> Iterator[Finding]:
    """Arrays of past data, cut to the latest entries: those of one expression together, or all of the program."""
    code = case.code
    fixes: list[Fix] = []
    everywhere: list[Splice] = []
    window = int(case.factor(4, 80))
    arrays = sampled(case)
    for value in _right_sides(code):
        names = [n for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in arrays]
        uses = [n for n in names if not isinstance(code.parents[n], ast.Subscript)]
        splices = tuple(code.wrap(n, "", f"[-{window}:]") for n in uses)
        if splices:
            fixes.append(splices)
            everywhere += splices
    if len(fixes) > 1:
        fixes.append(tuple(everywhere))
    yield from _finding("slice", 2.5, fixes)


def check_fading(case: Case) -> Iterator[Finding]:
    """Products ``X.T @ y`` over samples, one at a time: either side fades with a sample's age, in the product itself or
    where it is read off past data."""
    code, arrays = case.code, sampled(case)
    fixes: list[Fix] = []
    matrices: set[str] = set()
    vectors: set[str] = set()

    def fade(node: ast.expr, samples: str, rows: bool = False) -> None:
        weights = _fading(case, samples, rows)
        inner = isinstance(code.parents[node], ast.expr)
        fixes.append((code.wrap(node, "(" if inner else "", f" * {weights}" + (")" if inner else "")),))

    for node, samples in _named_products(case):
        matrices.add(samples)
        fade(node.left, samples)
        if isinstance(node.right, ast.Name) and node.right.id != samples:
            vectors.add(node.right.id)
            fade(node.right, samples)
    for statement in code.nodes(ast.Assign):
        names = {target.id for target in statement.targets if isinstance(target, ast.Name)} & arrays
        if names & (matrices | vectors):
            fade(statement.value, code.text(statement.value), bool(names & matrices))
    yield from _finding("fade", 3.0, fixes)


def check_recent(case: Case) -> Iterator[Finding]:
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
    fixes: list[Fix] = []
    for value in _right_sides(code):
        uses = [
            n for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in latest and n.id not in arrays
        ]
        for node in uses:
            text = latest[node.id]
            fixes.append((code.replace(node, text if _stands_alone(code, node) else f"({text})"),))
    yield from _finding("recent", 2.5, fixes)


def check_scaling(case: Case) -> Iterator[Finding]:
    """Every variable, times a factor."""
    fixes = []
    for statement, name in _variables(case):
        factor = short(case.factor(0.05, 10.0))
        fixes.append(_line(case, statement, f"{name} = {factor} * {name}"))
    yield from _finding("scale", 2.0, fixes)


def check_wrapping(case: Case) -> Iterator[Finding]:
    """Every variable, within a function of one argument."""
    fixes = []
    for statement, name in _variables(case):
        function = _FUNCTIONS[case.rng.integers(len(_FUNCTIONS))]
        before, after = _call_around(case.code, function)
        fixes.append(_line(case, statement, f"{name} = {before}{name}{after}"))
    yield from _finding("wrap", 1.0, fixes)


def check_line_fading(case: Case) -> Iterator[Finding]:
    """Arrays of past data that are multiplied as ``X.T @ y``: a sample fades with its age."""
    rows, entries = _factors(case)
    fixes = []
    for statement, name in _variables(case):
        if name in rows | entries:
            weights = _fading(case, name, name in rows)
            fixes.append(_line(case, statement, f"{name} = {name} * {weights}"))
    yield from _finding("fade", 3.0, fixes)


def check_line_slices(case: Case) -> Iterator[Finding]:
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
        yield from _finding("slice", 2.5, [_line(case, found[-1][0], cut)])


def _line(case: Case, statement: ast.stmt, text: str) -> Fix:
    return (case.code.below(statement, text),)


def _variables(case: Case) -> list[tuple[ast.Assign, str]]:
    """Assignments of one variable, and its name; bare numbers, texts and counts are none that a function fits."""
    return [
        (statement, target.id)
        for statement in case.code.nodes(ast.Assign)
        for target in statement.targets[:1]
        if isinstance(target, ast.Name)
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
    """Source text of an expression with its arrays of past data cut to the latest entries."""

    class Cut(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.parse(f"{node.id}[-{window}:]", mode="eval").body if node.id in arrays else node

        def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
            return node  # an entry, or cut already

    return ast.unparse(Cut().visit(copy.deepcopy(value)))


def _stands_alone(code: Source, node: ast.expr) -> bool:
    """Whether an expression is an argument or a whole right side, so that it needs no parentheses."""
    return isinstance(code.parents[node], ast.Call | ast.Assign | ast.Return)


def _finding(kind: str, priority: float, fixes: Sequence[Fix]) -> Iterator[Finding]:
    if fixes:
        yield Finding(kind, "", priority, tuple(fixes))


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
        return not (isinstance(node.func, ast.Name) and node.func.id in _COUNTS)
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


def _call_around(code: Source, name: str) -> tuple[str, str]:
    """What stands before and behind an argument of this function."""
    library = "torch" if "torch" in code.names(code.tree) else "np"
    if name == "square":
        return "", " ** 2"
    if name == "clip":
        return f"{library}.clip(", ", -1.0, 1.0)"
    if name == "sqrt(abs)":
        return f"{library}.sqrt({library}.abs(", "))"
    return f"{library}.{name}(", ")"
