"""The command line of a run: every setting under one spelling, `--phase.beta 0.2`, read by jsonargparse.

Values are YAML: `--observe true`, `--env_args.replicas 5`, `--agent.styles '{edit_line: 1, rewrite: 2}'`. What is not
said is left out of the result, so that a configuration file can say it. Nothing heavy is imported: help, and the
answer to a typo, are there at once.
"""

import argparse
import ast
import contextlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser, Namespace

from experiments.cli.settings_reference import Section, Setting, sections
from trainers.loop.config import RunConfig
from trainers.store.plain import SettingsError, flatten, nearest

_SWITCH = {"action": "store_true"}
FLAGS: dict[str, dict[str, Any]] = {
    "config": {
        "help": "a configuration file (YAML), or the name of one that comes with the package: default"
    },
    "folder": {"help": "the run's folder; default: runs/ENV-METHOD-START-sSEED"},
    "resume": {"help": "continue the run in --folder"} | _SWITCH,
    "resume-if-exists": {"help": "continue it if there is one, else begin"} | _SWITCH,
    "dry-run": {"help": "print what would be done and what it would cost, and do nothing"} | _SWITCH,
    "print-settings": {"help": "print the resulting configuration as YAML, and do nothing"} | _SWITCH,
}
"""What the command line says about a run besides its settings."""
_METAVARS = {"whole number": "INTEGER", "number": "NUMBER", "true or false": "BOOL", "text": "TEXT"}
_REFUSED = re.compile(r'Parser key "(?P<key>[^"]+)".*Got value: (?P<value>.*)', re.DOTALL)


def read_arguments(arguments: Sequence[str] | None) -> tuple[Namespace, dict[str, Any]]:
    """The flags, and the settings that the command line names, nested as a configuration file nests them.

    Raises:
        SettingsError: an argument is unknown, or its value is of the wrong kind.
        SystemExit: help was asked for and given.
    """
    listed = list(sections(RunConfig()))
    keys = [setting.key for section in listed for setting in section.settings]
    words = _unfolded(sys.argv[1:] if arguments is None else arguments, keys)
    parser = make_parser(listed)
    try:
        given = parser.parse_args(list(words))
    except ArgumentError as error:
        raise SettingsError(_in_a_line(error, [s for part in listed for s in part.settings])) from None
    values = _plain(given)
    flags = Namespace({name.replace("-", "_"): values.pop(name.replace("-", "_"), None) for name in FLAGS})
    return flags, values


def _unfolded(words: Iterable[str], keys: Sequence[str]) -> Iterator[str]:
    """`--phase={'beta': 0.2}`, as W&B's agent writes a sweep's nested parameters, setting by setting."""
    for word in words:
        name, _, text = word.removeprefix("--").partition("=")
        if text.startswith("{") and name not in keys and any(key.startswith(f"{name}.") for key in keys):
            members = None
            with contextlib.suppress(ValueError, SyntaxError, TypeError):
                members = ast.literal_eval(text)
            if isinstance(members, dict):  # all else is refused under its own name
                members = flatten(members)
                yield from (f"--{name}.{key}={json.dumps(value)}" for key, value in members.items())
                continue
        yield word


def make_parser(listed: Iterable[Section]) -> ArgumentParser:
    """A parser that knows the flags, and each of these settings by its key."""
    parser = ArgumentParser(
        prog="atlas run",
        usage="%(prog)s [--config NAME|FILE] [--folder FOLDER] [--SETTING VALUE …]\n       atlas resume FOLDER",
        description="Begin or continue a run: evolve programs, tune the model that writes them.",
        formatter_class=argparse.HelpFormatter,
        exit_on_error=False,
        allow_abbrev=False,
    )
    for name, about in FLAGS.items():
        parser.add_argument(f"--{name}", **about)
    for section in listed:
        group = parser.add_argument_group(section.key or "the run", section.about)
        for setting in section.settings:
            group.add_argument(
                f"--{setting.key}", type=setting.hint, default=argparse.SUPPRESS,
                metavar=_METAVARS.get(setting.kind, setting.kind.replace("`", "")), help=_help(setting),
            )  # fmt: skip
    return parser


def _help(setting: Setting) -> str:
    default = f"default: {setting.default}" if setting.default else "no default"
    numbers = f"{setting.range}; " if setting.range else ""
    return f"{setting.meaning} ({numbers}{default})".replace("%", "%%")


def _in_a_line(error: ArgumentError, settings: Sequence[Setting]) -> str:
    """What the library complains about, with the name to use instead."""
    text = " ".join(str(error).split())
    if refused := _REFUSED.search(text):
        key, value = refused["key"], refused["value"]
        kind = next((setting.kind for setting in settings if setting.key == key), "")
        return f"{key} must be {_one_of(kind)}, not {value}" if kind else text
    if text.startswith("unrecognized arguments: "):
        word = text.removeprefix("unrecognized arguments: ").split()[0]
        known = [f"--{name}" for name in (*FLAGS, *(setting.key for setting in settings))]
        if not word.startswith("--"):
            return f"{word} stands alone; settings are written --phase.beta 0.2"
        word = word.partition("=")[0]
        return f"unknown setting {word}{nearest(word, known, 'atlas settings lists all')}"
    return text


def _one_of(kind: str) -> str:
    article = "" if kind in ("nothing", "true or false", "text") else "a "
    return f"one of {kind.replace('`', '')}" if kind.startswith("`") else f"{article}{kind}"


def _plain(value: Any) -> Any:
    if isinstance(value, Namespace):
        return {key: _plain(item) for key, item in vars(value).items()}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
