"""A task in one class, from anywhere: what a program is, the hidden data of a seed, and what a program is worth.

    class Halving(atlas_gym.ProgramTask, id="Halving-v0"):
        "x: a number. Returns half of it. The score is minus the error: higher is better, 0 is perfect."

        start = "def half(x):\\n    return x\\n"

        def instances(self, rng):                              # hidden data of a seed, drawn on the trusted side
            return rng.random(10)

        def score(self, program, x):                           # `program(x)` runs in the confined worker
            return -abs(program(x).number() - x / 2)

With nothing else said, `gym.make("my_module:Halving-v0")`, `make_task("my_module:Halving", seed=0)` and
`python -m atlas_gym evaluate my_module:Halving program.py` work. A task's instances are drawn from a stream that a
program cannot recompute from the seed (`atlas_gym.hidden_streams`); a seed means the same instances to all programs,
and the splits `train` and `held_out` share none.
"""

import copy
import inspect
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import islice
from numbers import Real
from typing import Any, ClassVar, Self, dataclass_transform

import cloudpickle
import numpy as np

from atlas_gym.evaluation.channel import Channel, Task
from atlas_gym.evaluation.result import Evaluation, Judgement, Limits
from atlas_gym.hidden_streams import hidden_stream
from atlas_gym.tasks.calls import Calls, Program, scoring
from atlas_gym.tasks.constants import make_constants, refuse_change, values_of
from atlas_gym.tasks.drawing import as_image, as_text
from atlas_gym.tasks.given_programs import Expert, GivenExperts, GivenStart, read_programs
from atlas_gym.tasks.registry import register
from atlas_gym.tasks.smoke import SmokeRun
from atlas_gym.tasks.summary import summary
from atlas_gym.tasks.template import Template

SPLITS = ("train", "held_out")
"""The families of seeds: to learn on, and to confirm on. They share no random numbers."""
TRAITS = {
    "drift": "what is right changes while a program runs, so that old data misleads",
    "memory": "arguments other than the present situation hold past data, which grows",
    "regression": "programs fit linear models, so that ridges and their strength matter",
    "choice": "programs choose among alternatives whose worth they are uncertain of",
    "loss": "programs return a sum of loss terms, one for each kind of error among the arguments",
}
"""Traits that rules for editing programs know of."""

_ASIDE = re.compile(r"(?ms)^(?:>>> |`info` has ).*?(?:\n\n|\Z)")
"""Parts of a docstring that are not for programs: examples of the environment's use, contents of `info`."""
_MOST = 1_000_000
"""Instances of a task, at most."""
_FOOTER = """\
NumPy is available as np. Module-level variables keep their values between the calls on one instance and start
afresh for each. No files, network or processes."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclass(frozen=True, kw_only=True)
class ProgramTask:
    """Base of tasks. The docstring of a subclass is the task in words, for prompts.

    Annotated attributes of a subclass are its constants: keywords of `gym.make` and of the command line's `--set`.
    Class statements take `id`, the name under which Gymnasium is to know the task.
    """

    env_id: ClassVar[str] = ""
    """What it is found by: the id of the class statement, or the place of the class."""
    function: ClassVar[str] = ""
    """Name of the function that programs define; by default the last one that the start defines."""
    start: ClassVar[GivenStart | None] = None
    """A valid program to start from: a function, a text, or several by name, the usual one `named`."""
    experts: ClassVar[GivenExperts] = ()
    """Further programs to compare with: functions, or functions and texts by name."""
    initial: ClassVar[str] = "start"
    """The program that improvements are counted from: `start`, or an expert that is the same."""
    controls: ClassVar[Mapping[str, Expert]] = {}
    """Programs that win by other means than the task is about: rows of the gallery, and nowhere else."""
    templates: ClassVar[tuple[Template, ...]] = ()
    """Programs with numbers left open, for learners whose actions are numbers; the default first."""
    floor: ClassVar[float] = -1.0
    """What a useless program earns on an instance (< 0); scores below count as this, which is 0 when normalised. A
    program that fails is worth one less."""
    metrics: ClassVar[tuple[str, ...]] = ()
    """Names of further figures that `score` returns in a `Judgement`."""
    errors: ClassVar[tuple[str, ...]] = ()
    """Those of the metrics that are errors: never negative, lower is better."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"default": {}}
    """Named sets of constants, the default first."""
    traits: ClassVar[frozenset[str]] = frozenset()
    """What whoever edits programs may take for granted, some of `TRAITS`."""
    call_hints: ClassVar[tuple[str, ...]] = ()
    """Shapes and traps of the function's arguments, a short line each, for the prompts of small models."""
    hints: ClassVar[tuple[str, ...]] = ()
    """What usually limits a program, a line each, for whoever is asked to improve one."""
    torch: ClassVar[bool] = False
    """Whether programs are given torch."""
    imports: ClassVar[tuple[str, ...]] = ()
    """Modules of the standard library, numpy or scipy that programs are likely to import and that take long, such as
    `scipy.optimize`: they are imported once instead of in every evaluation."""
    driver: ClassVar[str] = "atlas_gym.sandbox.call_driver"
    """Module that serves the program in the worker; with one of your own, override `judge`."""

    starts: ClassVar[Mapping[str, str]] = {}
    """The texts of `start` by name, read off it."""
    programs: ClassVar[Mapping[str, Expert]] = {}
    """Every program that comes with the task by name, in the order of the gallery: the experts, before them those of
    `start` unless `initial` is an expert."""
    signature: ClassVar[str] = ""
    """First line of the function, read off the start."""

    seed: int = 0
    """Which of the split's tasks."""
    split: str = "train"
    """Family of seeds: `train` or `held_out`."""
    limits: Limits = Limits()
    """Of one evaluation, all instances together."""

    def __init_subclass__(cls, *, id: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        make_constants(cls)
        cls.env_id = id or f"{cls.__module__}:{cls.__qualname__}"
        if cls.start is not None:
            read_programs(cls)
            for name in ("metrics", "errors", "call_hints", "hints", "imports", "traits"):
                if isinstance(given := getattr(cls, name), str):
                    raise ValueError(f"{name} is {given!r}; give a tuple of texts, ({given!r},)")
                setattr(cls, name, frozenset(given) if name == "traits" else tuple(given))
            _check_floor(cls.floor)
            register(cls, id)

    @classmethod
    def from_keywords(cls, *, preset: str = "", **constants: Any) -> Self:
        """The task with a preset and the constants that differ from it.

        Raises ValueError for an unknown preset or a value that a constant cannot take, TypeError for an unknown name.
        """
        preset = preset or next(iter(cls.presets))
        if preset not in cls.presets:
            raise ValueError(f"no preset {preset!r}; there are {', '.join(cls.presets)}")
        task = cls(**values_of(cls, cls.presets[preset], constants))
        _check_floor(task.floor)  # which may be a constant
        return task

    @classmethod
    def template(cls, name: str = "") -> Template:
        """The template of this name, or the default one. Raises ValueError if there is none."""
        for template in cls.templates:
            if name in ("", template.name):
                return template
        known = ", ".join(template.name for template in cls.templates) or "none"
        raise ValueError(f"{cls.env_id} has no template {name}; there are {known}")

    def instances(self, rng: np.random.Generator) -> Iterable[Any]:
        """The hidden data of a seed: one item for each time that a program is tried. To be overridden."""
        raise NotImplementedError(f"{type(self).__name__} does not define instances")

    def score(self, program: Program, instance: Any) -> float | Judgement:
        """What a program, freshly started, is worth on one instance: at most 0 or nearly. To be overridden."""
        raise NotImplementedError(f"{type(self).__name__} does not define score")

    def score_all(self, calls: Calls, instances: Sequence[Any]) -> Sequence[float | Judgement]:
        """What the program is worth on every instance; by default `score` on one after the other.

        Override it to play all in lockstep: a run for each by `calls.start()`, asked together by `calls.ask_all`.
        """
        return [self.score(calls.restart(), instance) for instance in instances]

    def observe(self, rng: np.random.Generator) -> Sequence[str]:
        """Facts that anybody could observe without the hidden data, a line each, for prompts; by default none."""
        return ()

    def describe(self) -> str:
        """The task in words, for whoever writes programs.

        By default the class's docstring; of one in Gymnasium's sections, what a program does, gets and is worth.
        RuntimeError under `python -OO`, which strips docstrings.
        """
        if sys.flags.optimize > 1:
            raise RuntimeError(
                "a task's words are its docstring, which python -OO takes away: run without -OO"
            )
        # Of the task that it is a variant of, if it has none; `ProgramTask`, which is no task, has no id.
        docstrings = [kind.__doc__ for kind in type(self).__mro__ if getattr(kind, "env_id", "")]
        words = inspect.cleandoc(next(filter(None, docstrings), ""))
        sections = re.split(r"(?m)^## ", words)
        told = [s for s in sections if s.startswith(("Description", "Action Space", "Rewards"))]
        return _ASIDE.sub("", "".join(told)).strip() if told else words

    def draw(self, axes: Any, traces: Mapping[str, np.ndarray]) -> None:
        """Draw an evaluation's traces on matplotlib's axes; by default the scores."""
        axes.bar(np.arange(len(traces["scores"])), traces["scores"])
        axes.set(xlabel="instance", ylabel="score")

    def reference_scores(self) -> Mapping[str, float]:
        """Scores on this seed's task that are no program's, such as the ends of the scale, by name; by default none."""
        return {}

    @property
    def metric_names(self) -> tuple[str, ...]:
        return ("normalized_score", *self.metrics)

    @property
    def worst_score(self) -> float:
        """Reward of a program that failed; below every score that a program can reach."""
        return self.floor - 1.0

    @property
    def description(self) -> str:
        """All that a prompt says of the task: its words, the signature and what programs may rely on."""
        return f"Write a Python function `{self.function}`.\n\n{self.describe()}\n\n{self.signature}\n\n{_FOOTER}"

    @property
    def program_seed(self) -> int:
        """Seed of the program's own random generators; public, unlike the stream of the instances."""
        return self.seed % 2**32

    def at(self, seed: int, split: str = "train") -> Self:
        """The same task with the instances of another seed. Raises ValueError for what is no seed or no split."""
        if split not in SPLITS:
            raise ValueError(f"split is {split!r}; it must be one of {', '.join(SPLITS)}")
        if not isinstance(seed, Real) or seed != seed // 1 or seed < 0:  # NaN and infinity differ from theirs
            raise ValueError(f"seed is {seed!r}; it must be a non-negative integer")
        return replace(self, seed=int(seed), split=split)

    def prepare(self) -> None:
        drawn(self)

    def smoke(self) -> Task:
        """A smoke run of this task: whether a program runs at all, in milliseconds (`atlas_gym.tasks.smoke`).

        By default the first calls that `score_all` makes for the first instance; override it for a task whose first
        calls say little, with a small copy of the task for example.
        """
        return SmokeRun(self)

    def judge(self, channel: Channel) -> Judgement:
        """Play the trusted side of one evaluation and score the program."""
        instances = self.copies()
        calls = Calls(channel, self.function, self.program_seed)
        with scoring():
            results = list(self.score_all(calls, instances))
            if len(results) != len(instances):
                raise ValueError(f"score_all returned {len(results)} results for {len(instances)} instances")
            return summary(results, self.floor, self.metrics)

    def copies(self) -> list[Any]:
        """The instances, copied: one evaluation must not change the next one's."""
        try:
            return copy.deepcopy(list(drawn(self)))
        except (TypeError, RuntimeError, copy.Error) as error:
            lack = f"{type(self).__name__}.instances gives what cannot be copied for each program ({error})"
            raise TypeError(f"{lack}; give data, and make the rest of it in score") from error

    def observations(self) -> tuple[str, ...]:
        observed = self.observe(self._stream("observations"))
        if isinstance(observed, str):
            raise TypeError(f"{type(self).__name__}.observe returned a text; return several, a fact each")
        return tuple(observed)

    def text(self, evaluation: Evaluation | None) -> str:
        return as_text(self.env_id, evaluation, self.floor)

    def image(self, evaluation: Evaluation | None) -> np.ndarray:
        """Draw an evaluation as an image, uint8 (height, width, 3); None before the first."""
        return as_image(self.env_id, evaluation, self.draw)

    def _stream(self, purpose: str) -> np.random.Generator:
        # Not by its module, which is another when a file is imported by its path.
        name = self.env_id.rpartition(":")[2]
        return hidden_stream("task", name, self.split, self.seed, purpose)

    def __reduce__(self) -> Any:
        # By value where another process could not import the class: from `__main__`, a notebook, a file. So may be an
        # Enum beside it.
        try:
            values = cloudpickle.dumps({f.name: getattr(self, f.name) for f in fields(self)})
            return _restored, (cloudpickle.dumps(type(self)), values)
        except TypeError as error:
            lack = f"other processes cannot be given {self.env_id} ({error})"
            raise TypeError(f"{lack}; open files, locks and connections in score or instances") from error


def _check_floor(floor: Any) -> None:
    if not isinstance(floor, Real) or not -math.inf < float(floor) < 0:
        raise ValueError(f"floor is {floor!r}; it must be below 0, the perfect score, and finite")


@lru_cache(maxsize=32)
def drawn(task: ProgramTask) -> Sequence[Any]:
    """The instances of a task's seed, drawn once per process."""
    of_task = f"{type(task).__name__}.instances"
    try:
        given = task.instances(task._stream("instances"))
        # Nobody means a text's letters, a mapping's keys, or a set, whose order is another in every process.
        if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping | Set):
            raise TypeError(f"{of_task} returned {given!r:.80}; return a list, or yield its items")
        found = list(islice(given, _MOST + 1))
    except MemoryError as error:
        raise ValueError(f"{of_task} needs more memory than there is; give smaller constants") from error
    if not 0 < len(found) <= _MOST:
        raise ValueError(f"{of_task} gives {f'more than {_MOST:,}' if found else 'none'}")
    return found


# Behind `dataclass`, which refuses to find one. `make_constants` takes those of subclasses away.
ProgramTask.__setattr__ = refuse_change  # type: ignore[method-assign]


_class_of = lru_cache(maxsize=32)(cloudpickle.loads)
"""A task's class, read once, so that its instances are drawn once per process too."""


def _restored(kind: bytes, values: bytes) -> ProgramTask:
    return _class_of(kind)(**cloudpickle.loads(values))
