"""Numbers in a program that are worth changing, and what they seem to be for."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from atlas_gym.agents.proposals.source import Source

ConstantRole = Literal["window", "regularisation", "bonus", "discount", "weight", "other"]

_NAMED_ROLES: tuple[tuple[ConstantRole, re.Pattern[str]], ...] = (
    ("window", re.compile(r"window|memory|recent|horizon|n_last|size")),
    ("discount", re.compile(r"decay|gamma|discount|forget|momentum")),
    ("weight", re.compile(r"^w_|_w$|weight|coef|(lam\w*|lambda)_(r|res|pde|ic|bc)|steep|causal|eps")),
    ("regularisation", re.compile(r"lam|reg|ridge|prior")),
    ("bonus", re.compile(r"alpha|bonus|explor|ucb|beta|width")),
)

MOST_CONSTANTS = 64
"""Constants of one program that are looked at."""

_LOSS_WORDS = re.compile(r"loss|mse|resid|err|pde|(^|_)(ic|bc|r)($|_)")
_LAYOUT_KEYWORDS = ("axis", "dim", "ndim", "keepdims", "dtype", "copy")


@dataclass(frozen=True)
class Constant:
    """A number that stands in the program."""

    node: ast.Constant  # its place in the syntax tree
    value: int | float  # the number, without a minus sign in front of it
    name: str  # the variable it is assigned to, or the text around it
    role: ConstantRole  # what it seems to be for
    named: bool  # whether it is the whole right side of an assignment


def numbers(source: Source) -> Iterator[ast.Constant]:
    """Numbers in the function's body, except where one names a place (an index, an axis)."""
    pending: list[ast.AST] = list(source.function.body)
    while pending:  # not recursive: a long sum is a deep tree
        node = pending.pop()
        if isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12:
                yield node
        elif isinstance(node, ast.Subscript):
            pending.append(node.value)
            if isinstance(node.slice, ast.Slice):
                pending.append(node.slice)
        elif isinstance(node, ast.keyword) and node.arg in _LAYOUT_KEYWORDS:
            continue
        elif not isinstance(node, ast.JoinedStr):
            pending += ast.iter_child_nodes(node)


def constants(code: Source) -> list[Constant]:
    """The numbers of the program that are worth changing: no indices, exponents, keyword values or texts.

    At most :data:`MOST_CONSTANTS`, the first ones in the text.
    """
    nodes = [
        node for node in ast.walk(code.tree) if isinstance(node, ast.Constant) and _is_tunable(code, node)
    ]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return [_describe(code, node) for node in nodes[:MOST_CONSTANTS]]


def _is_tunable(code: Source, node: ast.Constant) -> bool:
    value, parent = node.value, code.parents[node]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e12:
        return False
    if isinstance(parent, ast.keyword | ast.arguments | ast.Dict | ast.Subscript | ast.Tuple | ast.List):
        return False
    if isinstance(parent, ast.UnaryOp) and not isinstance(code.parents[parent], ast.Slice):
        return False  # `axis=-1`, `x[-1]`
    return not (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow) and parent.right is node)


def _describe(code: Source, node: ast.Constant) -> Constant:
    value = node.value
    assert isinstance(value, int | float)
    statement = code.parents[node]
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        return Constant(node, value, name, _role_of_name(code, name), named=True)
    return Constant(node, value, _label(code, node), _role_of_use(code, node) or "other", named=False)


def _role_of_name(code: Source, name: str) -> ConstantRole:
    """By use if a use says it, else by the name's own words."""
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            role = _role_of_use(code, node)
            if role is not None:
                return role
    return next((role for role, words in _NAMED_ROLES if words.search(name.lower())), "other")


def _role_of_use(code: Source, node: ast.expr) -> ConstantRole | None:
    """What a number, or a variable that holds one, is used for; None if the use does not say."""
    parent = code.parents[node]
    if isinstance(parent, ast.UnaryOp):
        parent = code.parents[parent]
    if isinstance(parent, ast.Slice):
        return "window"
    if not isinstance(parent, ast.BinOp):
        return None
    if isinstance(parent.op, ast.Pow) and parent.left is node:
        return "discount"
    if not isinstance(parent.op, ast.Mult):
        return None
    others = {name.lower() for name in code.names(parent.right if parent.left is node else parent.left)}
    if others & {"eye", "identity"}:
        return "regularisation"
    if any("bonus" in name or "width" in name for name in others):
        return "bonus"
    return "weight" if any(_LOSS_WORDS.search(name) for name in others) else None


def _label(code: Source, node: ast.expr) -> str:
    around = code.parents[node]
    while isinstance(around, ast.UnaryOp | ast.Slice) or not isinstance(around, ast.expr | ast.stmt):
        around = code.parents[around]
    return code.text(around)[:40]
