"""The command line of a run: every setting by its name, `--phase.beta 0.2`; dashes and underscores are the same.

Values are YAML: `--observe true`, `--env_args.replicas 5`, `--agent.styles '{edit_line: 1, rewrite: 2}'`. What is not
said is left out of the result, so that a configuration file can say it; `load_config` refuses what a setting does not
take. Nothing heavy is imported: help, and the answer to a typo, are there at once, and help needs no extra.
"""

import argparse
import ast
import dataclasses
import inspect
import json
import sys
import textwrap
import typing
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, Literal

from atlas_gym.arguments import SET, Parser
from atlas_gym.tasks.constants import constants_from
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.store.plain import SettingsError, keys_of, merge, nearest, read_value

_SWITCH = {"action": "store_true"}
FLAGS: dict[str, dict[str, Any]] = {
    "config": {
        "help": "a configuration file (YAML), or the name of one that `atlas list` shows. Default: `default`, the main "
        "job; where --env or --method names another one, that method's own settings (`plain`)"
    },
    "folder": {"help": "the run's folder; default: runs/ENV-METHOD-START-sSEED"},
    "set": SET | {"help": "constants of the task, such as horizon=500; the same as --env_args.horizon 500"},
    "resume": {"help": "continue the run in --folder"} | _SWITCH,
    "resume-if-exists": {"help": "continue it if there is one, else begin"} | _SWITCH,
    "trust": {"help": "continue a run of somebody else's that names addresses, keys or code"} | _SWITCH,
    "print-settings": {"help": "print the resulting configuration as YAML, and do nothing"} | _SWITCH,
    "help-all": {"help": "show all settings, and exit", "action": "help"},
}
"""Options beside the settings."""
FIRST = {
    "What is solved": "env start instances observe",
    "By whom": "method model device seed sampling.temperature",
    "For how long": "rounds evaluations exploration.islands exploration.samples phase_every",
    "How it learns": "teaching phase.beta phase.learning_rate gate.max_kl",
    "Beside it": "controls held_out_seeds workers tracking",
}
"""The settings that most people need first."""


def read_arguments(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, dict[str, Any]]:
    """The flags, and the settings that are named, nested as a configuration file nests them. Raises `SettingsError`: an
    argument is unknown, or its value is missing; `SystemExit`: help was asked for and given."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = Parser(
        prog="atlas run",
        usage="%(prog)s [--config NAME|FILE] [--folder FOLDER] [--SETTING VALUE …]\n       atlas resume FOLDER",
        description="Begin or continue a run: evolve programs, tune the model that writes them.",
        epilog="\n".join(_settings(words)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    for name, about in FLAGS.items():
        parser.add_argument(f"--{name}", **about)
    try:
        flags, words = parser.parse_known_args(words)
        values: dict[str, Any] = {"env_args": constants_from(flags.set)} if flags.set else {}
    except (argparse.ArgumentError, ValueError) as error:
        raise SettingsError(str(error)) from None
    known = keys_of(RunConfig)
    while words:
        word, words = words[0], words[1:]
        if not word.startswith("--"):
            raise SettingsError(f"{word} stands alone; settings are written --phase.beta 0.2")
        key, is_given, value = word.removeprefix("--").partition("=")
        key = key.replace("-", "_")
        path = key.split(".")
        if path[0] not in {name.partition(".")[0] for name in known}:
            options = [f"--{name}" for name in (*FLAGS, *known)]
            hint = nearest(f"--{key}", options, "atlas run --help-all lists all")
            raise SettingsError(f"unknown setting --{key}{hint}")
        if not is_given:
            if not words or words[0].startswith("--"):
                raise SettingsError(f"--{key} needs a value")
            value, words = words[0], words[1:]
        values = merge(values, reduce(lambda inner, part: {part: inner}, reversed(path), read_value(value)))
    return flags, values


def _settings(words: Sequence[str]) -> Iterator[str]:
    """What help says of the settings; nothing if none is asked for."""
    if not {"-h", "--help", "--help-all", "--help_all"} & {*words}:
        return
    about = dict(described(RunConfig()))
    if {"--help-all", "--help_all"} & {*words}:
        yield from ("All settings, with the values that they have under `--config plain`:", *about.values())
        return
    for title, names in FIRST.items():
        yield from ("", f"{title}:", *(about[name] for name in names.split()))
    yield f"\natlas run --help-all lists all {len(about)} settings, --print-settings those of a configuration."


def described(settings: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The settings of a dataclass by name: each with its value and the docstring of its field."""
    texts: dict[str, str] = {}
    for base in reversed([base for base in type(settings).__mro__ if dataclasses.is_dataclass(base)]):
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        for field, doc in pairwise(getattr(tree, "body", ())):
            match field, doc:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = text
    for own in dataclasses.fields(settings):
        value, name = getattr(settings, own.name), f"{key}{own.name}"
        if dataclasses.is_dataclass(value):
            yield from described(value, f"{name}.")
        else:
            hint = typing.get_type_hints(type(settings))[own.name]
            choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
            shown = json.dumps(value, ensure_ascii=False, default=dataclasses.asdict)
            line = f"  --{name} {shown}" + (f"   one of {', '.join(choices)}" if choices else "")
            about = textwrap.fill(" ".join(texts[own.name].split()), 100)
            yield name, f"{line}\n{textwrap.indent(about, ' ' * 6)}"
