"""A run's candidates and preference pairs as a Hugging Face dataset folder.

    atlas export RUN FOLDER

The folder loads with `datasets.load_dataset(FOLDER, "pairs")` (columns `prompt`, `chosen`, `rejected` as TRL's
trainers want them, and where they come from) and `"candidates"`. The run may be under way: nothing is locked.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atlas_gym.arguments import Parser
from atlas_gym.optional import require
from atlas_gym.trainers.store.rows import PAIR_FIELDS
from atlas_gym.trainers.store.store import RunStore, StoreError


def export(run: Path, folder: Path) -> dict[str, int]:
    """Write the folder and say how many rows each part has; parts without rows are left out.

    Raises:
        StoreError: There is no run in the folder.
        FileExistsError: The target holds something already.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    with RunStore.open_readonly(run) as store:
        parts = {
            "candidates": [vars(c) | {"metrics": json.dumps(dict(c.metrics))} for c in store.candidates()],
            "pairs": [dict(zip(("phase", "index", *PAIR_FIELDS), row, strict=True)) for row in store.pairs()],
        }
    try:
        _write(folder, parts)
    except OSError as error:  # a full disk: what is half written would only be in the next attempt's way
        shutil.rmtree(folder, ignore_errors=True)
        raise OSError(error.errno, error.strerror, str(folder)) from error
    return {name: len(rows) for name, rows in parts.items()}


def _write(folder: Path, parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    configs = []
    for name, rows in parts.items():
        if rows:
            (folder / name).mkdir(parents=True)
            require("datasets", "learn").Dataset.from_list(rows).to_parquet(folder / name / "train.parquet")
            configs.append(f"- config_name: {name}\n  data_files: {name}/train.parquet")
    counts = {name: len(rows) for name, rows in parts.items()}
    folder.mkdir(parents=True, exist_ok=True)
    card = Path(__file__).with_name("export_card.md").read_text(encoding="utf-8")
    (folder / "README.md").write_text(card.format(configs="\n".join(configs), **counts), encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Export one run."""
    parser = Parser(prog="atlas export", description=__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("folder", type=Path, help="a new or empty folder")
    options = parser.parse_args(arguments)
    try:
        counts = export(options.run, options.folder)
    except (StoreError, OSError) as error:
        raise SystemExit(str(error)) from error
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
