"""What the measuring tools of this folder share: run folders in, a table a run and a CSV file out."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from atlas_gym.agents.models.adapters import AdapterError
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.agents.models.policy import Policy
from atlas_gym.arguments import Parser
from atlas_gym.experiments.report.table_formats import write_csv
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.resources import device_of, load_policy
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import StoreError

Rows = Sequence[Mapping[str, Any]]


def measure(
    tool: str,
    about: str | None,
    of_runs: Callable[[Namespace], Iterator[Rows]],
    arguments: Sequence[str] | None,
    own: Mapping[str, Mapping[str, Any]] = {},
    shown: Callable[[pd.DataFrame], str] = lambda rows: rows.round(3).to_string(index=False),
) -> None:
    """Print what comes of each run (`options.runs`) as it comes, and write all of it where `--output` says.

    `tool` and `about` are the module's name and docstring, `own` its further arguments as `add_argument` takes them.

    Raises:
        SystemExit: a run cannot be read, or cannot be measured; with the reason.
    """
    parser = Parser(prog=f"python -m atlas_gym.experiments.studies.{tool}", description=about)
    for name, said in own.items():
        parser.add_argument(name, **said)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    parser.add_argument("--output", type=Path, help="also written here, as CSV")
    options = parser.parse_args(arguments)
    found: list[pd.DataFrame] = []
    try:
        for rows in of_runs(options):
            found.append(pd.DataFrame(rows))
            print(shown(found[-1]), flush=True)
            if options.output:
                write_csv(pd.concat(found), options.output)
    except (SettingsError, StoreError, AdapterError) as error:
        raise SystemExit(f"Error: {error}") from error


def base_policy(config: RunConfig) -> Policy:
    """The model that a run began with, on as many threads as the run had; on a GPU if torch finds one here, unless the
    run was told to use the CPU."""
    torch.set_num_threads(config.torch_threads)
    # A run that asked for a GPU can be measured on a machine without one.
    device = device_of(replace(config, device="auto")) if config.device == "cuda" else device_of(config)
    return load_policy(config, resolve_model(config.model), device)
