"""A parsed program: which lines belong to its entry function, what stands on them, and edits of its text.

Places come from the syntax tree, never from searching the text, so that an ``=`` in a string, a docstring or a
comment is not taken for an assignment. Edits are splices of the text, so that everything else (comments, layout,
names) stays as its author wrote it and the difference to the parent stays small.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TypeVar

from atlas_gym.program_text import parse_program

Node = TypeVar("Node", bound=ast.expr | ast.stmt)


@dataclass(frozen=True)
class Splice:
    """Replacement of a stretch of the source."""

    start: int  # first character that is replaced
    end: int  # character behind the last one
    text: str  # what comes in its place


@dataclass(frozen=True)
class Source:
    """A program that parses and defines its entry function as a plain top-level ``def``."""

    program: str  # program text with newlines normalised
    tree: ast.Module  # its syntax tree
    function: ast.FunctionDef  # the entry function (the last one of that name: it is the one that counts)

    @classmethod
    def parse(cls, program: str, function: str) -> Source | None:
        """The parsed program, or None if it does not parse or does not define the function by ``def``."""
        program = program.replace("\r\n", "\n").replace("\r", "\n")  # as Python itself reads it
        try:
            tree = parse_program(program)
        except SyntaxError:
            return None
        found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function]
        return cls(program, tree, found[-1]) if found else None

    @classmethod
    def by_lines(cls, program: str, function: str) -> Source | None:
        """Like :meth:`parse`, but None as well for text whose lines Python counts differently than its newlines."""
        odd = "\r" in program or "\f" in program or not program.endswith("\n")
        return None if odd else cls.parse(program, function)

    @classmethod
    def of(cls, program: str, function: str) -> Source:
        """Like :meth:`by_lines`, but raises ValueError where that returns None."""
        source = cls.by_lines(program, function)
        if source is None:
            raise ValueError(f"nothing can be rewritten in a program that does not define {function} plainly")
        return source

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The program's lines, without line ends."""
        return tuple(self.program.removesuffix("\n").split("\n"))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """Every node's parent."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @property
    def first(self) -> int:
        """Index of the function's ``def`` line."""
        return self.function.lineno - 1

    @property
    def last(self) -> int:
        """Index of the function's last line."""
        return (self.function.end_lineno or self.function.lineno) - 1

    @cached_property
    def before(self) -> str:
        """What stands before the function, without the blank lines between."""
        start = min([self.function.lineno, *(node.lineno for node in self.function.decorator_list)]) - 1
        return "\n".join(self.lines[:start]).rstrip()

    @property
    def after(self) -> str:
        """What stands after the function, from the newline that ends it on; without comments that nothing follows."""
        return "\n" if self.tree.body[-1] is self.function else self.program[self.end(self.last) :]

    @cached_property
    def comments(self) -> dict[int, int]:
        """Column of the comment on each line that has one."""
        found: dict[int, int] = {}
        try:
            for token in tokenize.generate_tokens(io.StringIO("\n".join(self.lines) + "\n").readline):
                if token.type == tokenize.COMMENT:
                    found[token.start[0] - 1] = token.start[1]
        except (tokenize.TokenError, SyntaxError):  # rarely stricter than the parser
            return {}
        return found

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Character at which each line begins."""
        return (0, *accumulate(len(line) + 1 for line in self.lines))

    def end(self, line: int) -> int:
        """Character behind a line, its newline."""
        return self.starts[line] + len(self.lines[line])

    def column(self, line: int, offset: int) -> int:
        """Character column of a syntax tree's byte offset."""
        return len(self.lines[line].encode()[:offset].decode())

    def code(self, line: int) -> str:
        """A line without its comment."""
        column = self.comments.get(line)
        return self.lines[line] if column is None else self.lines[line][:column].rstrip()

    def function_text(self, name: str, end: int | None = None) -> str:
        """The function's lines (up to character ``end`` of the program) with the function called ``name``."""
        text = self.program[self.starts[self.first] : self.end(self.last) if end is None else end]
        return re.sub(rf"\b{re.escape(self.function.name)}\b", name, text, count=1)

    def starts_its_line(self, node: ast.stmt) -> bool:
        """Whether nothing but indentation stands before a statement on its line."""
        return not self.left(node).strip()

    def left(self, node: ast.expr | ast.stmt) -> str:
        """What stands left of a node on its line."""
        return self.program[: self.place(node)[0]].rpartition("\n")[2]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the entry function's arguments."""
        return tuple(argument.arg for argument in self.function.args.args)

    def nodes(self, kind: type[Node]) -> list[Node]:
        """Every node of this kind in the entry function, in the order of the text."""
        found = [node for node in ast.walk(self.function) if isinstance(node, kind)]
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))

    @property
    def assignments(self) -> list[tuple[ast.Assign, str]]:
        """Assignments to a variable in the entry function, and its name."""
        found = self.nodes(ast.Assign)
        return [(node, node.targets[0].id) for node in found if isinstance(node.targets[0], ast.Name)]

    def names(self, node: ast.AST) -> set[str]:
        """Every name that is read or written below ``node``, attributes included."""
        return {
            part.id if isinstance(part, ast.Name) else part.attr
            for part in ast.walk(node)
            if isinstance(part, ast.Name | ast.Attribute)
        }

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The node's source text."""
        return self.program[slice(*self.place(node))]

    def place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """First character of the node and the one behind it."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        end = self.column(last, node.end_col_offset or node.col_offset)
        return self.starts[first] + self.column(first, node.col_offset), self.starts[last] + end

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Splice:
        """The edit that puts ``text`` in the node's place."""
        return Splice(*self.place(node), text)

    def wrap(self, node: ast.expr, before: str, after: str) -> Splice:
        """The edit that puts text around an expression."""
        return self.replace(node, f"{before}{self.text(node)}{after}")

    def below(self, statement: ast.stmt, text: str) -> Splice:
        """The edit that adds a line below the last line of a statement, indented as the statement's first line is."""
        line, end = self.lines[statement.lineno - 1], self.end((statement.end_lineno or statement.lineno) - 1)
        return Splice(end, end, f"\n{line[: len(line) - len(line.lstrip())]}{text}")

    def apply(self, splices: tuple[Splice, ...]) -> str | None:
        """The program with all the edits made; None if two of them overlap."""
        program = self.program
        ordered = sorted(splices, key=lambda splice: splice.start)
        if any(a.end > b.start for a, b in pairwise(ordered)):
            return None
        for splice in reversed(ordered):
            program = program[: splice.start] + splice.text + program[splice.end :]
        return program
