"""Programs as text: parsing, fingerprints, and finding them in a model's answer. Nothing here runs a program."""

import ast
import hashlib
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LONGEST_PROGRAM = 65_536
"""Characters of the longest text that is parsed, the default limit of an evaluation; half a second at worst."""

_filters = threading.Lock()


def parse_program(source: str) -> ast.Module:
    """The syntax tree of a program of unknown origin, in bounded time and without a word on stderr.

    Python's parser warns of odd escapes and the like by printing the line, which is the program's own text.

    Raises:
        SyntaxError: it does not parse, is longer than `LONGEST_PROGRAM`, or is nested too deeply.
    """
    if len(source) > LONGEST_PROGRAM:
        raise SyntaxError(f"it has {len(source)} characters; {LONGEST_PROGRAM} are parsed")
    # The lock: filters belong to the process, and the report's server parses in several threads.
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except ValueError as error:  # null characters, text that has no UTF-8 form
            raise SyntaxError(str(error)) from error
        except (RecursionError, MemoryError) as error:
            raise SyntaxError("nested too deeply") from error


def syntax_error(source: str, function: str) -> str | None:
    """Why `source` is not a program that defines `function` at its top level, or None if it is one."""
    try:
        tree = parse_program(source)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
    if function not in _top_level_names(tree):
        return f"it does not define {function}"
    return None


def program_key(source: str) -> str | None:
    """A fingerprint (SHA-256, hexadecimal) of what the program does, None if it does not parse.

    Comments, layout, docstrings and annotations do not count; every name, constant and operator does.
    """
    try:
        text = ast.dump(_Normaliser().visit(parse_program(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the tree, too, may be too deep to walk
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _top_level_names(tree: ast.Module) -> set[str]:
    """The names a module binds, also within if, try, with and loops, but not within functions and classes."""
    names: set[str] = set()
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        pending.extend(ast.iter_child_nodes(node))
    return names


class _Normaliser(ast.NodeTransformer):
    """Drops what does not change a program's behaviour."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [s for s in node.body if not _is_bare_constant(s)] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        return super().generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Annotations in a class's own body stay: dataclasses and the like read them."""
        body = [s for s in node.body if not _is_bare_constant(s)] or [ast.Pass()]
        node.body = [s if isinstance(s, ast.AnnAssign) else self.visit(s) for s in body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:
            return ast.Pass()
        return self.generic_visit(ast.Assign(targets=[node.target], value=node.value))


def _is_bare_constant(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


_FENCE = re.compile(r"^ {0,3}(`{3,})([^`\n]*)$", re.MULTILINE)
"""A line that can begin a block of code, and if only spaces follow its backticks, end one."""


def program_in(answer: str | Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> str:
    """The last fenced code block of an answer, or all of it if it has none.

    Fences are lines of their own, as in Markdown; where one has no partner, it may stand anywhere on its line.

    Args:
        answer: a text, or a message of a chat, or several, of which the last is taken.
    """
    if not isinstance(answer, str):
        message = answer if isinstance(answer, Mapping) else answer[-1] if answer else {}
        content = message.get("content") or ""  # which may be in parts
        parts = [content] if isinstance(content, str) else content
        answer = "".join(part if isinstance(part, str) else part.get("text") or "" for part in parts)
    text = answer
    blocks = list(blocks_in(text)) or ([_between_any(text)] if _FENCE.search(text) else [(0, len(text))])
    start, end = blocks[-1]
    return text[start:end]


def bare(program: str) -> str:
    """A program without a byte-order mark and the fence of a code block around it."""
    program = program.removeprefix("\ufeff")
    return program_in(program) if program.lstrip().startswith("```") else program


def blocks_in(text: str) -> Iterator[tuple[int, int]]:
    """Where the code of each fenced block begins and ends; a block that is not closed is none.

    A fence of as many backticks or more closes what another opened.
    """
    opening = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif len(fence[1]) >= len(opening[1]) and not fence[2].strip():
            yield opening.end() + 1, fence.start()
            opening = None


def _between_any(text: str) -> tuple[int, int]:
    """The span between the last two fences, wherever on their lines; all of it without two. Linear time."""
    found, end = (0, len(text)), 0
    while (opening := text.find("```", end)) >= 0:
        first = text.find("\n", opening) + 1
        closing = text.find("```", first)
        if not first or closing < 0:
            break
        found, end = (first, closing), closing + 3
    return found
