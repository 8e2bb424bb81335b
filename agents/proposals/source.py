"""A program's text seen from its entry function: which lines belong to it, and what stands on them.

Line and column numbers come from the syntax tree, never from searching the text, so that an ``=`` in a
string, a docstring or a comment is not taken for an assignment.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from functools import cached_property

from atlas_gym.program_text import parse_program


@dataclass(frozen=True)
class Source:
    """A program that parses and defines its entry function as a plain top-level ``def``."""

    lines: tuple[str, ...]
    """The program's lines, without line ends."""
    function: ast.FunctionDef
    """The entry function (the last one of that name: it is the one that counts)."""

    @classmethod
    def parse(cls, program: str, function: str) -> Source | None:
        """None for text that is no such program, or whose lines Python counts differently than its
        newlines."""
        if "\r" in program or "\f" in program or not program.endswith("\n"):
            return None
        try:
            tree = parse_program(program)
        except SyntaxError:
            return None
        found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function]
        return cls(tuple(program[:-1].split("\n")), found[-1]) if found else None

    @classmethod
    def of(cls, program: str, function: str) -> Source:
        """Like :meth:`parse`, but raises ValueError where that returns None."""
        source = cls.parse(program, function)
        if source is None:
            raise ValueError(f"nothing can be rewritten in a program that does not define {function} plainly")
        return source

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

    def column(self, line: int, offset: int) -> int:
        """Character column of a syntax tree's byte offset."""
        return len(self.lines[line].encode()[:offset].decode())

    def function_text(self, name: str, end: int | None = None) -> str:
        """The function's lines (up to line index ``end``, exclusive) with the function called ``name``."""
        lines = self.lines[self.first : self.last + 1 if end is None else end]
        return re.sub(rf"\b{re.escape(self.function.name)}\b", name, lines[0], count=1) + "".join(
            "\n" + line for line in lines[1:]
        )

    def statements(self) -> list[ast.stmt]:
        """Every statement inside the function, nested ones included, docstrings left out."""
        return [
            node
            for node in ast.walk(self.function)
            if isinstance(node, ast.stmt) and node is not self.function and not _is_text(node)
        ]

    def starts_its_line(self, node: ast.stmt) -> bool:
        """Whether nothing but indentation stands before a statement on its line."""
        line = node.lineno - 1
        return not self.lines[line][: self.column(line, node.col_offset)].strip()


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
