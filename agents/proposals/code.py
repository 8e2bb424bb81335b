"""A parsed program, with what the rules need: places in the text, parents of nodes, constants and their
roles.

Edits are splices of the source text at a node's place, so that everything else (comments, layout, names)
stays as the agent wrote it and the difference to the parent stays small.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Literal, TypeVar

from atlas_gym.program_text import parse_program

ConstantRole = Literal["window", "regularisation", "bonus", "discount", "weight", "other"]

_NAMED_ROLES: tuple[tuple[ConstantRole, re.Pattern[str]], ...] = (
    ("window", re.compile(r"window|memory|recent|horizon|n_last|size")),
    ("discount", re.compile(r"decay|gamma|discount|forget|momentum")),
    ("weight", re.compile(r"^w_|_w$|weight|coef|(lam\w*|lambda)_(r|res|pde|ic|bc)|steep|causal|eps")),
    ("regularisation", re.compile(r"lam|reg|ridge|prior")),
    ("bonus", re.compile(r"alpha|bonus|explor|ucb|beta|width")),
)

Node = TypeVar("Node", bound=ast.expr | ast.stmt)

MOST_CONSTANTS = 64
"""Constants of one program that are looked at."""

_LOSS_WORDS = re.compile(r"loss|mse|resid|err|pde|(^|_)(ic|bc|r)($|_)")


@dataclass(frozen=True)
class Splice:
    """Replacement of a stretch of the source."""

    start: int
    """First byte that is replaced."""
    end: int
    """Byte behind the last one."""
    text: str
    """What comes in its place."""


@dataclass(frozen=True)
class Constant:
    """A number that stands in the program."""

    node: ast.Constant
    """Its place in the syntax tree."""
    value: int | float
    """The number, without a minus sign in front of it."""
    name: str
    """The variable it is assigned to, or the text around it."""
    role: ConstantRole
    """What it seems to be for."""
    named: bool
    """Whether it is the whole right side of an assignment."""


@dataclass(frozen=True)
class Code:
    """A program that parses and defines its entry function."""

    source: str
    """Program text with newlines normalised."""
    tree: ast.Module
    """Its syntax tree."""
    function: ast.FunctionDef
    """The entry function."""
    parents: dict[ast.AST, ast.AST] = field(repr=False)
    """Every node's parent."""
    line_starts: tuple[int, ...] = field(repr=False)
    """Byte at which each line begins."""

    @classmethod
    def parse(cls, source: str, function: str) -> Code | None:
        """The parsed program, or None if it does not parse or does not define the function by ``def``."""
        source = source.replace("\r\n", "\n").replace("\r", "\n")  # as Python itself reads it
        try:
            tree = parse_program(source)
        except SyntaxError:
            return None
        defined = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
        if not defined:
            return None
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        lengths = (len(line) + 1 for line in source.encode().split(b"\n"))
        return cls(source, tree, defined[-1], parents, (0, *accumulate(lengths)))

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the entry function's arguments."""
        return tuple(argument.arg for argument in self.function.args.args)

    def nodes(self, kind: type[Node]) -> list[Node]:
        """Every node of this kind in the entry function, in the order of the text."""
        found = [node for node in ast.walk(self.function) if isinstance(node, kind)]
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))

    def names(self, node: ast.AST) -> set[str]:
        """Every name that is read or written below ``node``, attributes included."""
        return {
            part.id if isinstance(part, ast.Name) else part.attr
            for part in ast.walk(node)
            if isinstance(part, ast.Name | ast.Attribute)
        }

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The node's parent, its parent, and so on."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The node's source text."""
        start, end = self.place(node)
        return self.source.encode()[start:end].decode()

    def place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """First byte of the node and the byte behind it."""
        last, column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self.line_starts[node.lineno - 1] + node.col_offset, self.line_starts[last - 1] + column

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Splice:
        """The edit that puts ``text`` in the node's place."""
        start, end = self.place(node)
        return Splice(start, end, text)

    def wrap(self, node: ast.expr, before: str, after: str) -> Splice:
        """The edit that puts text around an expression."""
        return self.replace(node, f"{before}{self.text(node)}{after}")

    def apply(self, splices: tuple[Splice, ...]) -> str | None:
        """The program with all the edits made; None if two of them overlap."""
        data = self.source.encode()
        ordered = sorted(splices, key=lambda splice: splice.start)
        if any(a.end > b.start for a, b in pairwise(ordered)):
            return None
        for splice in reversed(ordered):
            data = data[: splice.start] + splice.text.encode() + data[splice.end :]
        return data.decode()


def constants(code: Code) -> list[Constant]:
    """The numbers of the program that are worth changing: no indices, exponents, keyword values or texts.

    At most :data:`MOST_CONSTANTS`, the first ones in the text.
    """
    nodes = [
        node for node in ast.walk(code.tree) if isinstance(node, ast.Constant) and _is_tunable(code, node)
    ]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return [_describe(code, node) for node in nodes[:MOST_CONSTANTS]]


def _is_tunable(code: Code, node: ast.Constant) -> bool:
    value, parent = node.value, code.parents[node]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e12:
        return False
    if isinstance(parent, ast.keyword | ast.arguments | ast.Dict | ast.Subscript | ast.Tuple | ast.List):
        return False
    if isinstance(parent, ast.UnaryOp) and not isinstance(code.parents[parent], ast.Slice):
        return False  # `axis=-1`, `x[-1]`
    return not (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow) and parent.right is node)


def _describe(code: Code, node: ast.Constant) -> Constant:
    value = node.value
    assert isinstance(value, int | float)
    statement = code.parents[node]
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        return Constant(node, value, name, _role_of_name(code, name), named=True)
    return Constant(node, value, _label(code, node), _role_of_use(code, node) or "other", named=False)


def _role_of_name(code: Code, name: str) -> ConstantRole:
    """By use if a use says it, else by the name's own words."""
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            role = _role_of_use(code, node)
            if role is not None:
                return role
    return next((role for role, words in _NAMED_ROLES if words.search(name.lower())), "other")


def _role_of_use(code: Code, node: ast.expr) -> ConstantRole | None:
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


def _label(code: Code, node: ast.expr) -> str:
    around = code.parents[node]
    while isinstance(around, ast.UnaryOp | ast.Slice):
        around = code.parents[around]
    return (
        code.text(around)[:40] if isinstance(around, ast.expr | ast.stmt) else str(getattr(node, "value", ""))
    )
