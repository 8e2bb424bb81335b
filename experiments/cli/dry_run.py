"""`--dry-run`: what a configuration asks for, counted, and what its programs cost here, timed.

Counts are exact where the configuration decides, and upper bounds where the run does: a phase is skipped where
exploration brought no improvement, a known program is not evaluated again. No model is loaded; what the language model
and the tuning take depends on the machine that has it.
"""

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from atlas_gym import make_task
from atlas_gym.agents.engines.settings import BackendSettings
from atlas_gym.agents.proposals import EditLine
from atlas_gym.evaluation import ConfinedEvaluator, EvaluatorError
from atlas_gym.experiments.loggers.console import make_console
from atlas_gym.trainers.loop.config import RunConfig


@dataclass(frozen=True)
class Counts:
    """How much a run asks for, at most."""

    candidates: int
    """Samples of the research agent while exploring, those of a control included."""
    patches: int
    """Programs that the exploration supporter may add."""
    measured: int
    """Fresh samples for the gate's scores, the probes and the measure."""
    evaluations: int
    """All of these, and the confirmation on held-out seeds; not what `pairs.redraws` scores again, which hangs on how
    many edits improve."""
    pairs: int
    """Preference pairs, of GRPO groups, all phases."""
    steps: int
    """Optimiser steps, all phases."""
    consultations: dict[str, int]
    """By supporter; 0 for one that is off."""


def count(config: RunConfig) -> Counts:
    """The work of a run."""
    layout, phases, supporters = config.exploration, config.phases, config.supporters
    controlled = config.control == "frozen" and config.phases > 0
    rounds = list(range(1, config.rounds + 1))
    if controlled:  # which takes over what came before the first phase
        rounds += rounds[config.phase_every :]
    advised = sum(map(layout.asks_supporter, rounds)) * layout.islands
    exam = config.gate.prompts if config.gate_score == "likelihood" else 0
    taught = phases * (config.pairs.prompts + exam) if config.teaching in ("phase", "both") else 0
    asked = {"exploration": advised + taught, "strategist": phases, "inspector": phases}
    for role in asked:
        settings = getattr(supporters, role)
        limit = settings.limits.calls if settings.form == "llm" else asked[role]
        asked[role] = 0 if settings.form == "off" else min(asked[role], limit)
    candidates = len(rounds) * layout.islands * layout.samples
    patches = min(asked["exploration"], advised) * layout.patches
    lessons = min(asked["exploration"], taught) * config.lessons
    spec = make_task(config.env, **config.env_args)
    probed = config.probe.prompts or len(EditLine(spec.function).sites(spec.starts[config.start]))
    measured = probe = 2 * probed * config.probe.samples
    trainings = 1
    if config.phase.reference == "gated":
        trainings += config.phase.alternatives
        scored = 1 + config.phase.checkpoints + trainings  # the reference first
        measured += scored * config.gate.prompts * config.gate.samples
    confirmed = 2 * (1 + controlled) * max(1, len(config.instances)) * config.held_out_seeds
    measure = config.measure
    asked_once = len(measure.instances) * measure.seeds * measure.prompts * measure.samples
    asked_times = (1 + (phases if measure.every_phase else 1)) if phases else 0
    # Where the task drifts, blocks that no phase follows are probed as well.
    unseen = len(config.blocks) - phases if phases and config.drift else 0
    all_measured = phases * measured + unseen * probe + asked_times * asked_once
    return Counts(
        candidates=candidates,
        patches=patches,
        measured=all_measured,
        evaluations=candidates + patches + lessons + all_measured + confirmed,
        pairs=phases * examples(config),
        steps=phases * trainings * -(-examples(config) * config.phase.epochs // config.phase.batch_size),
        consultations=asked,
    )


def examples(config: RunConfig) -> int:
    """Pairs of a phase, at most; of GRPO its groups, of which each prompt since the last phase gives one at most."""
    if config.phase.objective == "dpo":
        return config.pairs.count
    asked = config.phase_every * config.exploration.islands * config.exploration.sites
    return min(config.pairs.prompts, asked)


def time_start(config: RunConfig) -> tuple[float, float]:
    """Seconds and CPU seconds of evaluating the starting program here, confined, the second time.

    Raises:
        EvaluatorError: this machine cannot evaluate.
    """
    task = make_task(config.env, seed=config.seed, **config.env_args)
    program = task.starts[config.start]
    with ConfinedEvaluator() as evaluator:
        evaluator.evaluate(program, task)  # imports, compiles
        began, cpu = time.perf_counter(), time.process_time()
        evaluation = evaluator.evaluate(program, task)
        return time.perf_counter() - began, time.process_time() - cpu + evaluation.cpu_s


def show_dry_run(config: RunConfig) -> int:
    """Print what a run would do and what evaluating its programs would cost; evaluates the starting program twice.

    Returns:
        The exit code: 0, or 1 where this machine cannot evaluate.
    """
    console, work = make_console(), count(config)
    try:
        wall, cpu = time_start(config)
    except EvaluatorError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    console.print(_table(f"{config.name}: what would be done", _layout(config, work)))
    asked = [
        ("candidates", f"{work.candidates:,}, and {work.patches:,} patches"),
        ("samples to measure phases", f"{work.measured:,}"),
        ("evaluations", f"{work.evaluations:,}"),
        ("pairs or groups, optimiser steps", f"{work.pairs:,}, {work.steps:,}"),
    ]
    console.print(_table("What that asks for, at most", asked))
    total = work.evaluations * cpu
    rows = [
        ("the starting program", f"{wall:.2f} s, {cpu:.2f} s of CPU (timed here, now)"),
        ("all programs, at that", f"{_time(total)} of CPU, {_time(work.evaluations * wall / config.workers)} "
                                  f"by {config.workers} at a time, beside generation"),
    ]  # fmt: skip
    console.print(_table("What evaluating costs", rows))
    return 0


def _layout(config: RunConfig, work: Counts) -> list[tuple[str, str]]:
    layout, phase = config.exploration, config.phase
    where = {"pool": "this machine", "ray": f"a Ray cluster ({config.ray_address or 'one on this machine'})"}
    what = "pairs" if phase.objective == "dpo" else "groups"
    local = f"{config.model} by {config.backend.name}, device {config.device}"
    tuning = (
        f"{config.phases} phases of up to {examples(config)} {what}, {config.launch.processes} process(es), "
        f"reference {phase.reference} from {phase.initialisation}"
    )
    rows = [
        ("environment, method", f"{config.env}, {config.method}, start {config.start}, seed {config.seed}"),
        ("exploration", f"{config.rounds} rounds × {layout.islands} islands × {layout.samples} samples"),
        ("model", local if config.needs_policy else _served(config.backend) or local),
        ("tuning", tuning if config.phases else "none"),
    ]  # fmt: skip
    for role, calls in work.consultations.items():
        settings = getattr(config.supporters, role)
        model = f", {settings.endpoint.model}" if settings.form == "llm" and settings.endpoint else ""
        rows.append((f"supporter: {role}", f"{settings.form}{model}, at most {calls} consultations"))
    return [*rows, ("evaluator", f"{where[config.evaluator]}, {config.workers} at a time")]


def _served(backend: BackendSettings) -> str:
    """The model of a server and where it is; empty for one in this process."""
    asked = {"openai": backend.openai, "chat": backend.chat}.get(backend.name)
    return f"{asked.model} at {asked.base_url}" if asked else ""


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _table(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, width=110)
    table.add_column(ratio=3)
    table.add_column(ratio=8)
    for name, value in rows:
        table.add_row(name, escape(value))
    return table
