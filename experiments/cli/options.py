"""The command line of a run: every setting under one spelling, `--phase.beta 0.2`.

Values are YAML: `--observe true`, `--env_args.replicas 5`, `--agent.styles '{edit_line: 1, rewrite: 2}'`. What is not
said is left out of the result, so that a configuration file can say it; `load_config` refuses what a setting does not
take. Nothing heavy is imported: help, and the answer to a typo, are there at once.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Literal, get_origin

from atlas_gym.experiments.cli.settings_reference import Section, Setting, sections
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.store.plain import SettingsError, merge, nearest, read_value

_SWITCH = {"action": "store_true"}
FLAGS: dict[str, dict[str, Any]] = {
    "config": {
        "help": "a configuration file (YAML), or the name of one that comes with the package: default"
    },
    "folder": {"help": "the run's folder; default: runs/ENV-METHOD-START-sSEED"},
    "resume": {"help": "continue the run in --folder"} | _SWITCH,
    "resume-if-exists": {"help": "continue it if there is one, else begin"} | _SWITCH,
    "print-settings": {"help": "print the resulting configuration as YAML, and do nothing"} | _SWITCH,
}
"""What the command line says about a run besides its settings."""
_METAVARS = {"whole number": "INTEGER", "number": "NUMBER", "true or false": "BOOL", "text": "TEXT"}


def read_arguments(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, dict[str, Any]]:
    """What the command line names: all of it, for the flags; the settings, nested as a configuration file nests them.

    Raises:
        SettingsError: an argument is unknown, or its value is missing.
        SystemExit: help was asked for and given.
    """
    words = sys.argv[1:] if arguments is None else arguments
    listed = list(sections(RunConfig()))
    settings = {setting.key: setting for section in listed for setting in section.settings}
    parser = make_parser(listed)
    for name in {word.removeprefix("--").partition("=")[0] for word in words}:
        if _stands_for_settings(name, settings):
            parser.add_argument(f"--{name}", type=read_value, default=argparse.SUPPRESS)
    try:
        found, unknown = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise SettingsError(str(error)) from None
    if unknown:
        raise SettingsError(_complaint(unknown[0], [*FLAGS, *settings]))
    values: dict[str, Any] = {}
    for key, value in vars(found).items():
        if key.replace("_", "-") not in FLAGS:
            nested = reduce(lambda inner, part: {part: inner}, reversed(key.split(".")), value)
            values = merge(values, nested)
    return found, values


def _stands_for_settings(name: str, settings: Mapping[str, Setting]) -> bool:
    """Whether this is a section, as W&B's agent writes a sweep's nested parameters (`--phase={'beta': 0.2}`), or a key
    of a mapping."""
    return any(
        key.startswith(f"{name}.") or (setting.kind == "mapping" and name.startswith(f"{key}."))
        for key, setting in settings.items()
    )


def make_parser(listed: Iterable[Section]) -> argparse.ArgumentParser:
    """A parser that knows the flags, and each of these settings by its key."""
    parser = argparse.ArgumentParser(
        prog="atlas run",
        usage="%(prog)s [--config NAME|FILE] [--folder FOLDER] [--SETTING VALUE …]\n       atlas resume FOLDER",
        description="Begin or continue a run: evolve programs, tune the model that writes them.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    for name, about in FLAGS.items():
        parser.add_argument(f"--{name}", **about)
    for section in listed:
        group = parser.add_argument_group(section.key or "the run", section.about)
        for setting in section.settings:
            is_text = setting.hint is str or get_origin(setting.hint) is Literal
            group.add_argument(
                f"--{setting.key}", type=str if is_text else read_value, default=argparse.SUPPRESS,
                metavar=_METAVARS.get(setting.kind, setting.kind.replace("`", "")), help=_help(setting),
            )  # fmt: skip
    return parser


def _help(setting: Setting) -> str:
    default = f"default: {setting.default}" if setting.default else "no default"
    return f"{setting.meaning} ({default})".replace("%", "%%")


def _complaint(word: str, known: Iterable[str]) -> str:
    """What is said of a word that is no option, with the name to use instead."""
    if not word.startswith("--"):
        return f"{word} stands alone; settings are written --phase.beta 0.2"
    name = word.partition("=")[0]
    return f"unknown setting {name}{nearest(name, [f'--{key}' for key in known], 'atlas settings lists all')}"
