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

    name: str  # what it is called in tables; of one in a file, the file's name without its ending
    title: str  # first line of its docstring
    program: str  # the whole text


GivenProgram: TypeAlias = str | Callable[..., Any] | Expert
"""A program as a text, a function, or read already."""
GivenStart: TypeAlias = GivenProgram | Mapping[str, GivenProgram]
GivenExperts: TypeAlias = Mapping[str, GivenProgram] | Sequence[Callable[..., Any]]


def read_programs(cls: Any) -> None:
    """Read names, signature and texts off the programs that a task's author gave, and leave them with its class.

    Raises ValueError for what is no program, for a start that does not define the function, and for an initial program
    that is none of them.
    """
    given = dict(cls.start) if isinstance(cls.start, Mapping) else {"named": cls.start}
    if "named" not in given:
        raise ValueError(f"start has {', '.join(given) or 'nothing'}; call the usual one `named`")
    starts = {n: _expert(p, "start" if n == "named" else n, cls.function) for n, p in given.items()}
    try:
        tree = ast.parse(starts["named"].program)
    except SyntaxError as error:
        raise ValueError(f"the start does not parse: line {error.lineno}: {error.msg}") from None
    defined = [n for n in tree.body if isinstance(n, ast.FunctionDef) and cls.function in ("", n.name)]
    if not defined:
        raise ValueError(f"the start does not define {cls.function or 'a function'}")
    entry = defined[-1]
    returns = f" -> {ast.unparse(entry.returns)}" if entry.returns else ""
    cls.function, cls.signature = entry.name, f"def {entry.name}({ast.unparse(entry.args)}){returns}:"
    cls.starts = {name: start.program for name, start in starts.items()}
    if isinstance(cls.experts, str) or not isinstance(cls.experts, Iterable):
        raise ValueError(f"experts is {cls.experts!r}; give a tuple of functions, or a mapping by name")
    experts = cls.experts
    if not isinstance(experts, Mapping):
        if nameless := [program for program in experts if not hasattr(program, "__name__")]:
            raise ValueError(f"{nameless[0]!r} has no name; give experts that are no functions by name")
        experts = {program.__name__: program for program in experts}
    experts = {name: _expert(program, name, cls.function) for name, program in experts.items()}
    own = {"start": starts.pop("named"), **starts}
    cls.programs = experts if cls.initial in experts else {**own, **experts}
    if cls.initial not in cls.programs:
        raise ValueError(f"initial is {cls.initial!r}; it must be one of {', '.join(cls.programs)}")


def load_experts(package: str, *names: str) -> Mapping[str, Expert]:
    """Programs of a package, one a file, by name in this order."""
    return {name: _expert(_source(package, name), name) for name in names}


def without_docstring(package: str, name: str) -> str:
    """A package's program from its import line on: a prompt should not tell where the program comes from."""
    text = _source(package, name)
    return "\n".join(text.split("\n")[ast.parse(text).body[0].end_lineno :]).lstrip("\n")


def _source(package: str, name: str) -> str:
    """A file's text, and in the place of `from .other import …` the other file's."""
    text = files(package).joinpath(f"{name}.py").read_text(encoding="utf-8")
    return re.sub(
        r"^from \.(\w+) import .*\n", lambda line: without_docstring(package, line[1]), text, flags=re.M
    )


def _expert(program: GivenProgram, name: str, function: str = "") -> Expert:
    """A program under its name, its title the first line of the module's docstring, or of the last function's that has
    one. Every line of it ends with a newline, so that each can be edited."""
    if isinstance(program, Expert):
        return replace(program, name=name)
    if isinstance(program, str):
        text = program.strip("\n")  # maybe indented as the class that it was written in
        text = (textwrap.dedent(text) if text.startswith((" ", "\t")) else text).rstrip() + "\n"
    else:
        text = _text_of(program, function)
    try:
        tree = ast.parse(text)
    except SyntaxError:  # told when it is used
        tree = ast.Module([], [])
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    docstrings = [ast.get_docstring(tree), *(ast.get_docstring(f) for f in reversed(functions))]
    title = next((docstring.splitlines()[0].rstrip(".") for docstring in docstrings if docstring), "")
    return Expert(name, title or name.replace("_", " "), text)


def template_of(given: Callable[..., Any], function: str, *parameters: Parameter) -> Template:
    """A template of a function's program; see `opened`."""
    return opened(given.__name__, _text_of(given, function), *parameters)


def opened(name: str, program: str, *parameters: Parameter) -> Template:
    """A template of a program's text: each parameter stands for the number in its line `name = number`.

    Raises ValueError unless each parameter has just one such line.
    """
    text = program.replace("$", "$$")
    for parameter in parameters:
        line = re.compile(rf"^( *{parameter.name} = )[-+.\w]+$", re.M)
        text, count = line.subn(rf"\g<1>${parameter.name}", text)
        if count != 1:
            raise ValueError(f"{name} has {count} lines `{parameter.name} = number`; it needs one")
    return Template(name, text, parameters)


def _text_of(program: Callable[..., Any], function: str) -> str:
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
    if names := sorted(used - defined - vars(builtins).keys()):
        raise ValueError(
            f"{program.__name__} uses {', '.join(names)}, which programs do not have: they are the function's own "
            "text, with np and math; import or define it within the function, or give the program as a text"
        )
    if function and function != (own := program.__name__):
        source = re.sub(rf"\bdef {own}\b", f"def {function}", source, count=1)
        if own in used:  # it calls itself
            source += f"\n\n{own} = {function}\n"
    return f"import numpy as np\n\n\n{source}"
