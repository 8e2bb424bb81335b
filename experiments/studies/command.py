"""A run's command and environment, with its parameters injected the way W&B's agent does it."""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from experiments.studies.parameters import SweepError
from experiments.studies.sweep_file import Sweep

_ENVIRONMENT = re.compile(r"\$\{envvar:([A-Z0-9_]*)\}")


def expand(sweep: Sweep, parameters: Mapping[str, Any]) -> list[str]:
    """The command with its macros filled in.

    Raises:
        SweepError: it has a macro that is not known here.
    """
    words: list[str] = []
    for chunk in sweep.command:
        # As W&B: what is not set stands for its own name.
        chunk = _ENVIRONMENT.sub(lambda match: os.environ.get(match[1], match[1]), chunk)
        macro = re.fullmatch(r"\$\{(\w+)\}", chunk)
        words += _macro(macro[1], sweep, parameters) if macro else [chunk]
    return words


def _macro(name: str, sweep: Sweep, parameters: Mapping[str, Any]) -> list[str]:
    pairs = [f"{key}={value}" for key, value in parameters.items()]
    known = {
        "env": ["/usr/bin/env"],
        "interpreter": [sys.executable],
        "program": [sweep.program],
        "args": [f"--{pair}" for pair in pairs],
        "args_no_hyphens": pairs,
        "args_json": [json.dumps(dict(parameters))],
    }
    if name not in known:
        raise SweepError(f"the macro ${{{name}}} is not known here; known: {', '.join(known)}, envvar:NAME")
    return known[name]


def environment(
    run_id: str, folder: Path, parameters: Mapping[str, Any], parameter_file: Path
) -> dict[str, str]:
    """The environment of a run.

    Writes the file from which W&B itself takes a sweep's parameters (`WANDB_SWEEP_PARAM_PATH`), so that the run's
    record holds them as it would under an agent. `WANDB_SWEEP_ID` is not set: no server knows this sweep, and a
    record that names it could not be synchronised.
    """
    entries = {"wandb_version": 1, **{name: {"value": value} for name, value in parameters.items()}}
    parameter_file.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")
    return {
        **os.environ,
        "WANDB_MODE": os.environ.get("WANDB_MODE", "offline"),
        "WANDB_RUN_ID": run_id,
        "WANDB_SWEEP_PARAM_PATH": str(parameter_file.resolve()),
        "ATLAS_RUN_FOLDER": str(folder.resolve()),
    }
