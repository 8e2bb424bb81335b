"""The command `atlas`: one name for everything that is done from a terminal.

Each command is the `main` of a module that is imported only when it is asked for, so that `atlas evaluate` needs
the environments alone and answers at once.
"""

import difflib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One word behind `atlas`."""

    module: str
    """Where its `main(arguments)` is."""
    help: str
    """What it does, in a line."""
    arguments: tuple[str, ...] = ()
    """Laid before what the user gives."""


_BASE = "atlas_gym.cli.main"
COMMANDS = {
    "run": Command(
        "atlas_gym.experiments.cli.run", "begin a run: evolve programs, tune the model that writes them"
    ),
    "resume": Command(
        "atlas_gym.experiments.cli.run",
        "continue the run in a folder: atlas resume FOLDER",
        ("--resume", "--folder"),
    ),
    "fetch": Command(
        "atlas_gym.agents.models.loading",
        "make a model available on this machine, by default the embedded one",
        ("fetch",),
    ),
    "report": Command("atlas_gym.experiments.report.__main__", "write the report of one or several runs"),
    "settings": Command(
        "atlas_gym.experiments.cli.options",
        "list all settings of a run, or those of a configuration",
    ),
    "study": Command("atlas_gym.experiments.studies.__main__", "compare methods over seeds, as a plan says"),
    "new-task": Command(_BASE, "write a task of your own to begin with, and its test", ("new-task",)),
    "check": Command(_BASE, "say whether a task is fit for use; needs no model", ("check",)),
    "evaluate": Command(_BASE, "score a program on held-out or training tasks", ("evaluate",)),
    "list": Command(_BASE, "list the environments", ("list",)),
    "doctor": Command(_BASE, "say which confinement layers this machine gives", ("doctor",)),
    "serve": Command(_BASE, "serve an environment to other processes", ("serve",)),
}
_LEARN = (
    *("torch", "transformers", "peft", "trl", "rich", "yaml", "pandas"),
    *("pydantic", "datasets", "huggingface_hub"),
)
_EXTRAS = {
    **dict.fromkeys(_LEARN, "learn"),
    "matplotlib": "render",
    "optuna": "optimisers",
}
"""Package that may be missing → the extra that brings it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (2: asked wrongly)."""
    _accept_any_output()
    try:
        code = _answer(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        from atlas_gym.arguments import flush_or_drop

        enough = isinstance(error, BrokenPipeError)  # whoever reads the output has read enough
        if not enough:  # a place that cannot be written to, a full disk: the message names it
            print(f"Error: {error}", file=sys.stderr)
        flush_or_drop()
        return 0 if enough else 1


def _answer(given: Sequence[str]) -> int:
    if not given or given[0] in ("-h", "--help"):
        print(_usage())
        return 0 if given else 2
    name, *rest = given
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(COMMANDS)}"
        print(f"atlas: no command {name}{hint}", file=sys.stderr)
        return 2
    return _do(name, COMMANDS[name], rest)


def _accept_any_output() -> None:
    """A terminal that lacks a character shows a question mark; output that is closed (`>&-`) is thrown away."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (as long as the process)


def _do(name: str, command: Command, rest: Sequence[str]) -> int:
    folder_missing = command.arguments[-1:] == ("--folder",) and (not rest or rest[0].startswith("-"))
    before = command.arguments[:-1] if folder_missing else command.arguments
    try:
        return importlib.import_module(command.module).main([*before, *rest]) or 0
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        print(f'atlas {name} needs {error.name}: pip install "atlas-gym[{extra}]"', file=sys.stderr)
        return 2


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        ["usage: atlas COMMAND …", "", *lines, "", "atlas COMMAND --help says what a command takes."]
    )


if __name__ == "__main__":
    sys.exit(main())
