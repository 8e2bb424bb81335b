"""The command line of a run: every setting under one spelling, `--phase.beta 0.2`.

Values are YAML: `--observe true`, `--env_args.replicas 5`, `--agent.styles '{edit_line: 1, rewrite: 2}'`. What is not
said is left out of the result, so that a configuration file can say it; `load_config` refuses what a setting does not
take. Nothing heavy is imported: help, and the answer to a typo, are there at once.
"""

import argparse
import dataclasses
import json
import sys
import textwrap
import typing
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, Literal

from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.store.plain import SettingsError, adapter_of, keys_of, merge, nearest, read_value

_SWITCH = {"action": "store_true"}
FLAGS: dict[str, dict[str, Any]] = {
    "config": {
        "help": "a configuration file (YAML), or the name of one that comes with the package: default"
    },
    "folder": {"help": "the run's folder; default: runs/ENV-METHOD-START-sSEED"},
    "resume": {"help": "continue the run in --folder"} | _SWITCH,
    "resume-if-exists": {"help": "continue it if there is one, else begin"} | _SWITCH,
    "trust": {"help": "continue a run of somebody else's that names addresses, keys or code"} | _SWITCH,
    "print-settings": {"help": "print the resulting configuration as YAML, and do nothing"} | _SWITCH,
}
"""Options beside the settings."""


def read_arguments(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, dict[str, Any]]:
    """The flags, and the settings that are named, nested as a configuration file nests them.

    Raises:
        SettingsError: an argument is unknown, or its value is missing.
        SystemExit: help was asked for and given.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    asked = {"-h", "--help"} & {*words}
    parser = argparse.ArgumentParser(
        prog="atlas run",
        usage="%(prog)s [--config NAME|FILE] [--folder FOLDER] [--SETTING VALUE …]\n       atlas resume FOLDER",
        description="Begin or continue a run: evolve programs, tune the model that writes them.",
        epilog="\n".join(["settings:", *described(RunConfig())]) if asked else "",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
        allow_abbrev=False,
    )
    for name, about in FLAGS.items():
        parser.add_argument(f"--{name}", **about)
    try:
        flags, words = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise SettingsError(str(error)) from None
    values: dict[str, Any] = {}
    known = keys_of(RunConfig)
    while words:
        word, words = words[0], words[1:]
        if not word.startswith("--"):
            raise SettingsError(f"{word} stands alone; settings are written --phase.beta 0.2")
        key, is_given, value = word.removeprefix("--").partition("=")
        path = key.split(".")
        if path[0] not in {name.partition(".")[0] for name in known}:
            options = [f"--{name}" for name in (*FLAGS, *known)]
            hint = nearest(f"--{key}", options, "atlas run --help lists all")
            raise SettingsError(f"unknown setting --{key}{hint}")
        if not is_given:
            if not words or words[0].startswith("--"):
                raise SettingsError(f"--{key} needs a value")
            value, words = words[0], words[1:]
        values = merge(values, reduce(lambda inner, part: {part: inner}, reversed(path), read_value(value)))
    return flags, values


def described(settings: Any, key: str = "") -> Iterator[str]:
    """Lines that list the settings of a dataclass with their values and the docstrings of its fields."""
    texts: dict[str, str] = {}
    for base in reversed([base for base in type(settings).__mro__ if dataclasses.is_dataclass(base)]):
        properties = adapter_of(base).json_schema()["$defs"][base.__name__]["properties"]
        texts |= {name: about["description"] for name, about in properties.items() if "description" in about}
    for field in dataclasses.fields(settings):
        value, name = getattr(settings, field.name), f"{key}{field.name}"
        if dataclasses.is_dataclass(value):
            yield from described(value, f"{name}.")
        else:
            hint = typing.get_type_hints(type(settings))[field.name]
            choices = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
            shown = json.dumps(value, ensure_ascii=False, default=dataclasses.asdict)
            yield f"  --{name} {shown}" + (f"   one of {', '.join(choices)}" if choices else "")
            yield textwrap.indent(textwrap.fill(" ".join(texts[field.name].split()), 100), " " * 6)
