"""Writer ``expressions``: the right side of one line grown at random, without any model.

It searches on its own, and alone it is what a language model's samples are to be compared with: expressions of two
types, numbers and everything else, over the names and the expressions that the program has at that place, arguments
that it does not use included. Three in four are the old right side with a part of it replaced, wrapped in a function or
combined with something else; the others are new. Which of them run, a smoke run says; shapes are not looked at. (Koza,
Genetic Programming, 1992; Montana, Strongly typed genetic programming, 1995.)
"""

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.agents.proposals.edit_line import EditLine, line_site, right_side
from atlas_gym.agents.proposals.source import Source
from atlas_gym.agents.proposals.style import EditSite, PartStyle, Showing
from atlas_gym.program_text import program_key

_FRESH = 0.25
"""Probability of a new expression instead of a changed one."""
_DEPTH = 2
"""Operators above one another in what is grown, at most."""
_LONGEST = 60
"""Characters of an expression of the program that is taken as a whole."""
_OPERATORS = ("+", "-", "*", "/")
_FUNCTIONS = (
    "np.sqrt(np.abs({0}))", "np.log1p(np.abs({0}))", "np.exp(-np.abs({0}))", "np.tanh({0})", "np.abs({0})",
    "({0}) ** 2", "-({0})", "1.0 / (1.0 + np.abs({0}))",
)  # fmt: skip
_PLAIN_FUNCTIONS = ("abs({0})", "({0}) ** 2", "-({0})", "1.0 / (1.0 + abs({0}))")
_ATTEMPTS = 20


@dataclass(frozen=True)
class Expressions(PartStyle):
    """Grows the right side of one line."""

    name = "expressions"

    def places(self, source: Source) -> list[EditSite]:
        """The sites of ``edit_line``."""
        return EditLine(self.function).places(source)

    def prompt(self, source: Source, site: EditSite, showing: Showing) -> str:
        """None; the completion is the new right side."""
        return ""

    def write(self, proposal: Proposal, n: int, rng: np.random.Generator) -> tuple[str, ...]:
        """``n`` right sides, none of them the parent's unless nothing else was found."""
        source = Source.of(proposal.prefix + (proposal.avoid or "") + proposal.suffix, self.function)
        sites = {site.start: node for node in source.nodes(ast.stmt) if (site := line_site(source, node))}
        statement = sites[len(proposal.prefix)]
        value, end = right_side(statement), ":\n" if isinstance(statement, ast.For) else "\n"
        assert value is not None
        library = next((name for name in ("torch.", "np.") if re.search(rf"\b{name}", source.program)), "")
        functions = (
            tuple(text.replace("np.", library) for text in _FUNCTIONS) if library else _PLAIN_FUNCTIONS
        )
        grower = _Grower(source, value, functions, rng)
        old, written = program_key(source.program), []
        for _ in range(n):
            found = proposal.avoid or ""
            for _ in range(_ATTEMPTS):
                text = f" {grower.grown(_DEPTH) if rng.random() < _FRESH else grower.changed()}{end}"
                if program_key(proposal.assemble(text)) not in (None, old):
                    found = text
                    break
            written.append(found)
        return tuple(written)


class _Grower:
    """Grows expressions out of what a program has in scope at a statement's right side."""

    def __init__(self, source: Source, value: ast.expr, functions: tuple[str, ...], rng: np.random.Generator):
        self.source, self.value, self.functions, self.rng = source, value, functions, rng
        start = source.place(value)[0]
        scope, self.numbers = {*source.arguments}, ["1.0"]
        for node, name in source.assignments:
            if source.place(node)[1] <= start:
                scope.add(name)
                if isinstance(node.value, ast.Constant) and isinstance(node.value.value, int | float):
                    self.numbers.append(name)
        called = {node.func for node in source.nodes(ast.Call)}
        # What is only ever asked for its attributes is no value itself: a module, the history.
        named = [node for node in source.nodes(ast.Name) if not isinstance(node.ctx, ast.Store)]
        values = {node.id for node in named if not isinstance(source.parents[node], ast.Attribute)}
        bound = {node.id for node in source.nodes(ast.Name) if isinstance(node.ctx, ast.Store)} | scope
        # The places of what stands within an f-string are its own, not the program's (before Python 3.12).
        formatted = {part for text in source.nodes(ast.JoinedStr) for part in ast.walk(text)}
        self.values = []
        for expression in source.nodes(ast.expr):
            if expression in formatted:
                continue
            names = {part.id for part in ast.walk(expression) if isinstance(part, ast.Name)}
            whole = isinstance(expression, ast.Name | ast.Attribute | ast.Call | ast.BinOp | ast.Subscript)
            text = source.text(expression)
            bare = isinstance(expression, ast.Name) and expression.id not in values
            if (
                whole
                and not bare
                and expression not in called
                and names & scope
                and not names & (bound - scope)
                and len(text) <= _LONGEST
            ):
                self.values.append(text)
        # An argument that the program does not use yet may be what it lacks.
        used = {node.id for node in source.nodes(ast.Name)}
        self.values += [name for name in source.arguments if name not in used]
        self.values = list(dict.fromkeys(self.values)) or self.numbers

    def grown(self, depth: int) -> str:
        """A new expression, at most so deep."""
        kind = self.rng.random()
        if depth == 0 or kind < 0.25:
            return self._one(self.values)
        if kind < 0.5:
            return self._one(self.functions).format(self.grown(depth - 1))
        other = self.number() if self.rng.random() < 0.5 else self.grown(depth - 1)
        return f"({self.grown(depth - 1)}) {self._one(_OPERATORS)} ({other})"

    def number(self) -> str:
        """A number between 0.01 and 100, or a name that holds one."""
        if self.rng.random() < 0.3:
            return self._one(self.numbers)
        return f"{math.exp(self.rng.uniform(math.log(0.01), math.log(100.0))):.2g}"

    def changed(self) -> str:
        """The old right side with one of its parts replaced, wrapped, combined, or, if it is a number, scaled."""
        parts = list(self._parts(self.value))
        if not parts:  # a text, say
            return self.grown(_DEPTH)
        part = parts[int(self.rng.integers(len(parts)))]
        text = self.source.text(part)
        if isinstance(part, ast.Constant) and isinstance(part.value, int | float):
            new = self._scaled(part.value)
        else:
            kind = self.rng.random()
            if kind < 0.3:
                new = self.grown(1)
            elif kind < 0.6:
                new = self._one(self.functions).format(text)
            else:
                other = self.number() if self.rng.random() < 0.6 else self.grown(1)
                new = f"({text}) {self._one(_OPERATORS)} ({other})"
        start = self.source.place(self.value)[0]
        first, last = self.source.place(part)
        old = self.source.text(self.value)
        bare = part is self.value or isinstance(part, ast.Constant)
        return old[: first - start] + (new if bare else f"({new})") + old[last - start :]

    def _parts(self, node: ast.AST) -> Iterator[ast.expr]:
        """What of an expression is a value of its own: no function, module, attribute's owner or keyword's switch;
        of an index its numbers alone."""
        if isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12:
                yield node
            return
        if isinstance(node, ast.JoinedStr):
            return
        if isinstance(node, ast.Subscript):
            yield node
            yield from self._parts(node.value)
            yield from (part for part in self._parts(node.slice) if isinstance(part, ast.Constant))
            return
        if isinstance(node, ast.expr) and not isinstance(
            node, ast.Slice | ast.Tuple | ast.List | ast.Starred | ast.UnaryOp
        ):
            yield node
        if isinstance(node, ast.Call):
            for argument in node.args:
                yield from self._parts(argument)
        elif not isinstance(node, ast.Attribute | ast.Name):
            for child in ast.iter_child_nodes(node):
                yield from self._parts(child)

    def _scaled(self, value: int | float) -> str:
        factor = math.exp(self.rng.uniform(-math.log(4.0), math.log(4.0)))
        if isinstance(value, int):
            return str(max(0, round(value * factor)) if value else int(self.rng.integers(1, 4)))
        return f"{value * factor:.3g}" if value else f"{factor:.3g}"

    def _one(self, items: list[str] | tuple[str, ...]) -> str:
        return items[int(self.rng.integers(len(items)))]
