"""Where tasks are found: by id, as `module:Class`, as `./file.py:Class`, as `module:Id-v0`, or in a folder.

A task is registered by its class statement, and known to Gymnasium from then on. Those of this package are imported at
first use, so that `import atlas_gym` loads none of them.

A reference can name code to import. Where references come from data that others wrote, look them up with
`importing=False`.
"""

import hashlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import cloudpickle
import gymnasium

from atlas_gym.mistake import authors_line
from atlas_gym.program_text import program_key

if TYPE_CHECKING:
    from atlas_gym.tasks.program_task import ProgramTask

BUILT_IN = {
    "ATLAS-Bandit-v0": "atlas_gym.tasks.bandit.task:BanditTask",
    "ATLAS-Burgers-v0": "atlas_gym.tasks.burgers.task:BurgersTask",
    "ATLAS-BinPacking-v0": "atlas_gym.tasks.bin_packing:OnlineBinPacking",
    "ATLAS-TSP-v0": "atlas_gym.tasks.tours:TravellingSalesman",
    "ATLAS-CirclePacking-v0": "atlas_gym.tasks.circle_packing:CirclePacking",
    "ATLAS-Dispatching-v0": "atlas_gym.tasks.dispatching:Dispatching",
    "ATLAS-Construct-CirclesRectangle-v0": "atlas_gym.tasks.constructions.circles_rectangle:CirclesRectangle",
    "ATLAS-Construct-HeilbronnTriangle-v0": "atlas_gym.tasks.constructions.heilbronn_triangle:HeilbronnTriangle",
    "ATLAS-Construct-HeilbronnConvex-v0": "atlas_gym.tasks.constructions.heilbronn_convex:HeilbronnConvex",
    "ATLAS-Construct-DistanceRatio-v0": "atlas_gym.tasks.constructions.distance_ratio:DistanceRatio",
    "ATLAS-Construct-Kissing-v0": "atlas_gym.tasks.constructions.kissing:Kissing",
    "ATLAS-Construct-Autocorrelation1-v0": "atlas_gym.tasks.constructions.autocorrelation_first:FirstAutocorrelation",
    "ATLAS-Construct-Autocorrelation2-v0": "atlas_gym.tasks.constructions.autocorrelation_second:SecondAutocorrelation",
    "ATLAS-Construct-Autocorrelation3-v0": "atlas_gym.tasks.constructions.autocorrelation_third:ThirdAutocorrelation",
    "ATLAS-Construct-MinimumOverlap-v0": "atlas_gym.tasks.constructions.minimum_overlap:MinimumOverlap",
    "ATLAS-Construct-SumsDifferences-v0": "atlas_gym.tasks.constructions.sums_differences:SumsDifferences",
    "ATLAS-Construct-Hadamard-v0": "atlas_gym.tasks.constructions.hadamard:Hadamard",
    "ATLAS-Construct-Hexagons-v0": "atlas_gym.tasks.constructions.hexagons:Hexagons",
}
"""The tasks of this package: `module:Class` by id."""
_FOLDERS = "atlas_gym.tasks.openevolve"  # imported at first use, as all tasks: they import this module
_FILE = "task_file_"
"""Begins the names of modules that are files found by their paths."""
_ENVIRONMENT = "atlas_gym.envs.program_env:ProgramEnv"
_VECTOR_ENVIRONMENT = "atlas_gym.envs.vector_env:ProgramVectorEnv"

_classes: "WeakSet[type[ProgramTask]]" = WeakSet()
_by_id: "dict[str, type[ProgramTask]]" = {}


def make_task(env_id: str, *, seed: int = 0, split: str = "train", **constants: Any) -> "ProgramTask":
    """The task that `gym.make(env_id, split=split, **constants)` poses after `reset(seed=seed)`.

    It says what programs look like, in words and in code, and is what evaluators score them on.

    Args:
        env_id: A registered id, or another reference that `find_task` takes.
        seed: Any non-negative integer; a task is determined by its seed, its split and its constants.
        split: `train`, or `held_out` for confirming a result; tasks of the two never share random numbers.
        constants: The task's own keywords: a `preset`, and what differs from it.

    Raises:
        ValueError: If there is no such task, split, seed or preset.
        TypeError: If the task has no such constant.
    """
    return find_task(env_id).from_keywords(**constants).at(seed, split)


def register(kind: "type[ProgramTask]", task_id: str = "") -> None:
    """Note a task, which class statements do; under an id, also for `gymnasium.make`.

    A class that is defined again (a notebook's cell run twice, a module reloaded) takes its predecessor's place.
    Raises ValueError if another task or environment has the id, or it is none for Gymnasium.
    """
    place, module = f"{kind.__module__}:{kind.__qualname__}", kind.__module__
    holder, spec = _by_id.get(task_id), gymnasium.registry.get(task_id)
    if holder is not None and _origin(holder) != _origin(kind):
        raise ValueError(f"the id {task_id} is taken by {holder.__module__}:{holder.__qualname__}")
    if holder is None and task_id:
        # A task that is not imported yet, or an environment that is none of ours.
        ours = spec is None or spec.entry_point == _ENVIRONMENT
        owner: Any = BUILT_IN.get(task_id, place) if ours or spec is None else spec.entry_point
        if owner != place:
            raise ValueError(f"the id {task_id} is taken by {owner}")
        # What finds the task also in a process that has not imported it: the id, after its module or file.
        reference = f"{module}:{task_id}"
        if module.startswith(_FILE):
            reference = f"{_file_of(sys.modules[module])}:{task_id}"
        elif module == "__main__" or module not in sys.modules or "<locals>" in kind.__qualname__:
            reference = task_id  # nobody else could import it
        try:
            make_known(task_id, reference)
        except gymnasium.error.Error:
            raise ValueError(f"Gymnasium takes no id {task_id!r}; give one such as MyTask-v0") from None
    _classes.add(kind)
    if task_id:
        _by_id[task_id] = kind


def make_known(task_id: str, reference: str = "") -> None:
    """Let `gymnasium.make` find an id; its task may be imported later."""
    if task_id not in gymnasium.registry:
        gymnasium.register(
            id=task_id,
            entry_point=_ENVIRONMENT,
            vector_entry_point=_VECTOR_ENVIRONMENT,
            kwargs={"task": reference or task_id},
        )


def registered_ids() -> list[str]:
    """The ids of this package's tasks, and of those that class statements have registered."""
    return list(dict.fromkeys([*BUILT_IN, *_by_id]))


def find_task(reference: str, *, importing: bool = True) -> "type[ProgramTask]":
    """The task that a reference names.

    Args:
        reference: A registered id, `module:Class`, `module:Id-v0`, `./file.py:Class`, `./file.py:Id-v0`, or
            `./file.py` for the only task of a file; or `./folder`, one in OpenEvolve's form.
        importing: Whether to import what the reference names. Without, as for references from data, there are this
            package's ids and what this process has imported already.

    Raises ValueError if there is no such task, ImportError if its module or file cannot be imported.
    """
    if reference in _by_id:
        return _by_id[reference]
    if reference in BUILT_IN:
        return find_task(BUILT_IN[reference])
    if (Path(reference) / "evaluator.py").is_file():
        return importlib.import_module(_FOLDERS).folder_task(Path(reference), importing=importing)
    place, colon, name = (reference, ":", "") if reference.endswith(".py") else reference.rpartition(":")
    module = _imported(place)
    unknown = f"no task {reference!r}; there are {', '.join(registered_ids())}"
    if module is None and not importing:
        raise ValueError(f"{unknown}; or import the module that defines it first")
    if module is None and not colon:
        if "/" in reference:
            lacks = "has no evaluator.py" if Path(reference).is_dir() else "does not exist"
            raise ValueError(f"{reference} {lacks}; name a task's file, ./file.py, or an OpenEvolve folder")
        raise ValueError(f"{unknown}; or name one as module:Class or ./file.py")
    module = module or _import(place)
    members = {key: value for key, value in vars(module).items() if isinstance(value, type)}
    tasks = {k: v for k, v in members.items() if v in _classes and v.__module__ == module.__name__}
    if not name:
        if len(tasks) == 1:
            return next(iter(tasks.values()))
        has = f"the tasks {', '.join(tasks)}" if tasks else "no task, which is a ProgramTask with a start"
        raise ValueError(f"{module.__file__} has {has}; name one as file.py:Class")
    found: Any = _by_id.get(name) or getattr(module, name, None)
    if not (isinstance(found, type) and found in _classes):
        has = (
            f"it has {', '.join(tasks) or 'none'}; a task is a subclass of atlas_gym.ProgramTask with a start"
        )
        raise ValueError(f"{module.__name__} has no task {name!r}; {has}")
    return found


def source_key(reference: str) -> str:
    """Fingerprint (SHA-256) of the code of a task's own files, comments and layout apart; empty for a task of this
    package, and for one without a file. Raises as `find_task` does."""
    if (Path(reference) / "evaluator.py").is_file():
        texts = [path.read_text(encoding="utf-8") for path in sorted(Path(reference).glob("*.py"))]
    else:
        module = sys.modules[find_task(reference).__module__]
        file = _file_of(module)
        others = file is not None and module.__name__.partition(".")[0] not in ("__main__", "atlas_gym")
        texts = [file.read_text(encoding="utf-8")] if file is not None and others else []
    keys = [program_key(text) or text for text in texts]
    return hashlib.sha256("\n".join(keys).encode()).hexdigest() if keys else ""


def load_file(path: Path) -> ModuleType:
    """Import a Python file that is no module, once; modules beside it can be imported by it.

    Raises FileNotFoundError if there is none, ImportError if it is no Python file, does not parse or raises an error.
    """
    path = path.resolve()
    if (loaded := _imported(str(path))) is not None:
        return loaded
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    # Files of one name may lie in two folders.
    name = f"{_FILE}{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, folder)  # what lies beside the file is what it means, whatever else has the name
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]  # half a module is not found the next time, not even after Ctrl-C in a notebook
        if isinstance(error, SyntaxError):
            where = f"{error.filename or path}, line {error.lineno}" if error.lineno else f"{path}"
            raise ImportError(f"{where}: {error.msg}") from None
        if isinstance(error, Exception | SystemExit):
            raise _failed_import(str(path), error) from error
        raise
    finally:
        sys.path.remove(folder)
    cloudpickle.register_pickle_by_value(module)  # other processes cannot import it by this name
    return module


def _import(place: str) -> ModuleType:
    if place.endswith(".py"):
        return load_file(Path(place))
    if not place or place[0] == "." or "/" in place:
        raise ValueError(f"{place!r} is no module and no Python file; name one as ./file.py:Class")
    try:
        return importlib.import_module(place)
    except (ImportError, gymnasium.error.Error):  # they say what is missing
        raise
    except (Exception, SystemExit) as error:
        raise _failed_import(place, error) from error


def _failed_import(place: str, error: BaseException) -> ImportError:
    """An error that a file or module raised, with the line of the author's that led to it."""
    line = authors_line(error)
    where = f"{line.filename}, line {line.lineno}" if line else place
    said = f"{where}: {type(error).__name__}: {error}"
    root = str(getattr(error, "name", "")).partition(".")[0]
    own, found = Path(place).parent / root, _file_of(sys.modules.get(root))
    if (
        root
        and found
        and found.parent not in (own, own.parent)
        and (own.is_dir() or own.with_suffix(".py").is_file())
    ):
        said += f"; {own} is hidden by {found}: give it an __init__.py, or another name"
    return ImportError(said)


def _imported(place: str) -> ModuleType | None:
    """The module of this name or file, if this process has imported it."""
    if not place.endswith(".py"):
        return sys.modules.get(place)
    path = Path(place).resolve()
    return next((module for module in list(sys.modules.values()) if _file_of(module) == path), None)


def _origin(kind: type) -> tuple[Any, str]:
    """What stays the same when a class is defined again."""
    module = sys.modules.get(kind.__module__)
    return (_file_of(module) or kind.__module__), kind.__qualname__


def _file_of(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if isinstance(file, str) else None
