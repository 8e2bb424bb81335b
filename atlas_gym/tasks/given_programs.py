"""Programs as a task's author gives them, in its class or one to a file, and the text, name and signature that are read
off them."""

import ast
import builtins
import inspect
import re
import symtable
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, TypeAlias

from atlas_gym.tasks.template import Parameter, Template


@dataclass(frozen=True)
class Expert:
    """A program written by hand, itself a candidate."""

    name: str
    """What it is called in tables; of one in a file, the file's name without its ending."""
    title: str
    """First line of its docstring."""
    program: str
    """The whole text."""


GivenProgram: TypeAlias = str | Callable[..., Any] | Expert
"""A program as a text, a function, or read already."""
GivenStart: TypeAlias = GivenProgram | Mapping[str, GivenProgram]
GivenExperts: TypeAlias = Mapping[str, GivenProgram] | Sequence[Callable[..., Any]]


def read_programs(cls: Any) -> None:
    """Read names, signature and texts off the programs that a task's author gave, and leave them with its class.

    Raises ValueError for what is no program, for a start that does not define the function, and for an initial program
    that is none of them.
    """
    starts = starts_of(cls.start, cls.function)
    cls.function, cls.signature = entry_of(starts["named"].program, cls.function)
    cls.starts = {name: start.program for name, start in starts.items()}
    experts = experts_of(cls.experts, cls.function)
    own = {"start": starts.pop("named"), **starts}
    cls.programs = experts if cls.initial in experts else {**own, **experts}
    if cls.initial not in cls.programs:
        raise ValueError(f"initial is {cls.initial!r}; it must be one of {', '.join(cls.programs)}")


def starts_of(given: GivenStart, function: str) -> dict[str, Expert]:
    """The programs to start from by name; `named` is the only or the usual one."""
    starts = dict(given) if isinstance(given, Mapping) else {"named": given}
    if not starts:
        raise ValueError("start is empty; give at least one program to start from")
    if "named" not in starts:
        raise ValueError(f"start has {', '.join(starts)}; call the usual one `named`")
    called = {"named": "start"}
    return {name: as_expert(given, called.get(name, name), function) for name, given in starts.items()}


def experts_of(given: GivenExperts, function: str) -> dict[str, Expert]:
    """The expert programs by name; a function's name is its own. Raises ValueError for anything else."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(f"experts is {given!r}; give a tuple of functions, or a mapping with texts by name")
    experts = given if isinstance(given, Mapping) else {_name(program): program for program in given}
    return {name: as_expert(program, name, function) for name, program in experts.items()}


def load_experts(package: str, *names: str) -> Mapping[str, Expert]:
    """Programs that live in a package one to a file, each a candidate as it stands, by name in this order."""
    return {name: as_expert(source(package, name), name) for name in names}


def source(package: str, name: str) -> str:
    """The text of the program `name` in a package."""
    return files(package).joinpath(f"{name}.py").read_text(encoding="utf-8")


def without_docstring(package: str, name: str) -> str:
    """The program from its import line on: a prompt should not tell where the program comes from."""
    text = source(package, name)
    docstring = ast.parse(text).body[0]
    return "\n".join(text.split("\n")[docstring.end_lineno :]).lstrip("\n")


def _name(program: Any) -> str:
    if not hasattr(program, "__name__"):
        raise ValueError(f"{program!r} has no name; give experts that are no functions as a mapping by name")
    return program.__name__


def as_expert(program: GivenProgram, name: str, function: str = "") -> Expert:
    """A program under its name, its title the first line of its docstring. Every line of it ends with a newline, also
    the last one of a text, so that each can be edited."""
    if isinstance(program, Expert):
        return replace(program, name=name)
    text = _at_the_margin(program) if isinstance(program, str) else _source(program, function)
    return Expert(name, _title(text) or name.replace("_", " "), text)


def _at_the_margin(text: str) -> str:
    """A text without the empty lines around it, and without the indentation of the class that it was written in."""
    text = text.strip("\n")
    return (textwrap.dedent(text) if text.startswith((" ", "\t")) else text).rstrip() + "\n"


def template_of(given: Callable[..., Any], function: str, *parameters: Parameter) -> Template:
    """A function's program with the numbers left open that have lines of their own.

    Raises ValueError unless each parameter has just one such line, `name = number`.
    """
    return opened(given.__name__, as_expert(given, given.__name__, function).program, *parameters)


def opened(name: str, program: str, *parameters: Parameter) -> Template:
    """The same of a program's text, under a name."""
    text = program.replace("$", "$$")
    for parameter in parameters:
        line = re.compile(rf"^( *{parameter.name} = )[-+.\w]+$", re.M)
        text, count = line.subn(rf"\g<1>${parameter.name}", text)
        if count != 1:
            raise ValueError(f"{name} has {count} lines `{parameter.name} = number`; it needs one")
    return Template(name, text, parameters)


def entry_of(program: str, function: str = "") -> tuple[str, str]:
    """Name and first line of the function that a program is called by: this one, or the last one it defines.

    Raises ValueError if the text does not parse or defines no such function.
    """
    try:
        tree = ast.parse(program)
    except SyntaxError as error:
        raise ValueError(f"the start does not parse: line {error.lineno}: {error.msg}") from None
    defined = [n for n in tree.body if isinstance(n, ast.FunctionDef) and function in ("", n.name)]
    if not defined:
        raise ValueError(f"the start does not define {function or 'a function'}")
    entry = defined[-1]
    returns = f" -> {ast.unparse(entry.returns)}" if entry.returns else ""
    return entry.name, f"def {entry.name}({ast.unparse(entry.args)}){returns}:"


def _source(program: Callable[..., Any], function: str) -> str:
    """A function's source under the entry function's name, numpy imported before it."""
    if not hasattr(program, "__name__"):
        raise ValueError(f"{program!r} is no program; give a function or a text")
    try:
        source = textwrap.dedent(inspect.getsource(program))
    except (OSError, TypeError):
        source = ""
    # Of what was executed from a string, Python may hand out other lines than the function's.
    if not re.search(rf"\bdef {re.escape(program.__name__)}\b", source):
        raise ValueError(f"the source of {program.__name__} cannot be read here; give the program as a text")
    if names := _not_its_own(source):
        raise ValueError(
            f"{program.__name__} uses {', '.join(names)}, which programs do not have: they are the function's own "
            "text, with np and math; import or define it within the function, or give the program as a text"
        )
    if function:
        source = re.sub(rf"\bdef {program.__name__}\b", f"def {function}", source, count=1)
    return f"import numpy as np\n\n\n{source}"


def _not_its_own(source: str) -> list[str]:
    """The names that a function's text uses, and neither it nor Python defines; `np` and `math` are there."""
    defined, used = {"np", "math"}, set()
    tables = [symtable.symtable(source, "", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            everywhere = table.get_type() == "module" or symbol.is_declared_global()
            if everywhere and (symbol.is_assigned() or symbol.is_imported()):
                defined.add(symbol.get_name())
            if symbol.is_referenced() and (everywhere or symbol.is_global()):
                used.add(symbol.get_name())
    return sorted(used - defined - vars(builtins).keys())


def _title(program: str) -> str:
    """The first line of the module's docstring, or of the last function's that has one."""
    try:
        tree = ast.parse(program)
    except SyntaxError:
        return ""
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    docstrings = [ast.get_docstring(tree), *(ast.get_docstring(f) for f in reversed(functions))]
    return next((text.splitlines()[0].rstrip(".") for text in docstrings if text), "")
