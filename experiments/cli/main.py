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

from atlas_gym._version import __version__
from atlas_gym.arguments import flush_or_drop
from atlas_gym.experiments.shipped import shipped
from atlas_gym.text import clean

_BASE, _RUN = "atlas_gym.cli.main", "atlas_gym.experiments.cli.run"
COMMANDS = {
    "run": (_RUN, "begin a run: evolve programs, tune the model that writes them"),
    "resume": (_RUN, "continue the run in a folder: atlas resume FOLDER"),
    "fetch": ("atlas_gym.agents.models.loading", "make a model available here, by default the embedded one"),
    "report": ("atlas_gym.experiments.report.__main__", "write the report of one or several runs"),
    "study": ("atlas_gym.experiments.studies.__main__", "compare methods over seeds, as a plan says"),
    "new-task": (_BASE, "write a task of your own to begin with, and its test"),
    "check": (_BASE, "say whether a task, configuration, sweep or plan is fit for use; needs no model"),
    "evaluate": (_BASE, "score a program on held-out or training tasks"),
    "list": (_BASE, "list the environments, and the configurations, sweeps and studies that come with them"),
    "doctor": (_BASE, "say which confinement layers this machine gives"),
    "serve": (_BASE, "serve an environment to other processes"),
}
"""Module whose `main(arguments)` it is, and what it does in a line."""
_LEARN = "jinja2 torch transformers peft trl rich yaml pandas pydantic datasets huggingface_hub"
_EXTRAS = {"matplotlib": "render", "optuna": "optimisers", **dict.fromkeys(_LEARN.split(), "learn")}
"""Package that may be missing → the extra that brings it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (2: asked wrongly)."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a character shows a question mark
    if sys.stdout is None:  # closed (`>&-`)
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (as long as the process)
    try:
        code = _answer(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever reads the output has read enough
        flush_or_drop()
        return 0
    except OSError as error:  # a place that cannot be written to, a full disk: the message names it
        print(f"Error: {clean(str(error), 5000)}", file=sys.stderr)
        flush_or_drop()
        return 1


def _answer(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help"):
        width = max(map(len, COMMANDS))
        lines = [f"  {name:<{width}}  {about}" for name, (_, about) in COMMANDS.items()]
        end = "atlas COMMAND --help says what a command takes."
        print("\n".join(["usage: atlas COMMAND …", "", *lines, "", end]))
        return 0 if given else 2
    name, *rest = given
    if name == "--version":
        print(f"atlas-gym {__version__}")
        return 0
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(COMMANDS)}"
        print(f"atlas: no command {name}; {hint}", file=sys.stderr)
        return 2
    module, _ = COMMANDS[name]
    if name == "check" and rest and rest[0].endswith((".yaml", ".yml")):
        module = "atlas_gym.experiments.cli.check"
    elif module == _BASE or name == "fetch":  # modules that have several
        rest = [name, *rest]
    elif name == "resume":
        is_named = rest and not rest[0].startswith("-")
        rest = ["--resume", *(["--folder"] if is_named else []), *rest]
    try:
        code = importlib.import_module(module).main(rest) or 0
        if rest == ["list"]:
            print("\n".join(shipped()))
        return code
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        print(f'atlas {name} needs {error.name}: pip install "atlas-gym[{extra}]"', file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
