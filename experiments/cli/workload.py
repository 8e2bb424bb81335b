"""How much a configuration asks for: prompts, completions, evaluations, pairs, consultations."""

from dataclasses import dataclass

from agents.population.candidate import CandidateRecord
from agents.proposals import Complete, EditLine, Rewrite, Showing, Style
from agents.supporters.settings import RoleSettings
from atlas_gym import make_task
from atlas_gym.tasks.program_task import ProgramTask
from experiments.cli.rates import MAIN_JOB
from trainers.loop.config import RunConfig


@dataclass(frozen=True)
class Asked:
    """What a language model is asked for by one part of a run."""

    prompts: int = 0
    """Prompts, each read once for all of its samples."""
    completions: int = 0
    """Samples."""
    read: int = 0
    """Tokens read."""
    drawn: int = 0
    """Tokens drawn."""

    def __add__(self, other: "Asked") -> "Asked":
        return Asked(
            self.prompts + other.prompts,
            self.completions + other.completions,
            self.read + other.read,
            self.drawn + other.drawn,
        )


@dataclass(frozen=True)
class Consultations:
    """What a supporter is asked over the run."""

    role: str
    """Its role."""
    form: str
    """`off`, `rules` or `llm`."""
    calls: int
    """Consultations, at most."""
    tokens: int
    """Tokens read and written if every consultation takes place; 0 for rules."""
    written: int
    """Of these, written."""
    model: str = ""
    """Model behind the endpoint."""


@dataclass(frozen=True)
class Workload:
    """Everything a run does, counted."""

    exploration: Asked
    """By the research agent while exploring."""
    measuring: Asked
    """For the gate's scores and the probes."""
    patches: int
    """Programs that the exploration supporter may add, at most."""
    evaluations: int
    """Programs evaluated, at most: each sample, each patch, and the confirmation."""
    phases: int
    """Fine-tuning phases planned."""
    pairs: int
    """Pairs per phase, at most."""
    steps: int
    """Optimiser steps per phase."""
    trained: int
    """Tokens through the model while training, all phases."""
    compared: int
    """Tokens through the model for Eq. 3, all phases."""
    consultations: tuple[Consultations, ...]
    """The three supporters."""


@dataclass(frozen=True)
class TextSizes:
    """Lengths of the texts of a run, tokens."""

    prompt: float
    """A prompt."""
    completion: float
    """What is drawn of a sample."""
    holes: int
    """Prompts of the probe: places of the starting program that the first style can rewrite."""


def text_sizes(config: RunConfig) -> TextSizes:
    """From the starting program, in the proportions of the configured styles.

    Characters become tokens as with the embedded model's tokenizer. A line is as long as in the main job; half
    of a function is drawn by `complete`, all of it by `rewrite`.
    """
    spec = make_task(config.env, **config.env_args)
    program = spec.starts[config.start]
    known: dict[str, tuple[Style, float]] = {
        "edit_line": (EditLine(spec.function), MAIN_JOB.line_tokens),
        "complete": (Complete(spec.function), 0.5 * _tokens(program)),
        "rewrite": (Rewrite(spec, chat=str), 1.0 * _tokens(program)),
    }
    weights = {name: weight for name, weight in config.agent.styles.items() if weight > 0 and name in known}
    total = sum(weights.values()) or 1.0
    prompt = sum(weight * _prompt_tokens(known[name][0], spec, program) for name, weight in weights.items())
    drawn = sum(weight * known[name][1] for name, weight in weights.items())
    first = known[next(iter(weights), "edit_line")][0]
    return TextSizes(prompt / total, drawn / total, len(first.holes(program)))


def count(config: RunConfig) -> Workload:
    """The work of a run."""
    sizes = text_sizes(config)
    layout, phases = config.exploration, config.phases
    exploration = _asked(config.rounds * layout.islands, layout.samples, sizes)
    measuring = Asked()
    for prompts, samples in _measurements(config, sizes):
        measuring += _asked(phases * prompts, samples, sizes)
    roles = _consultations(config)
    consulted = next(role for role in roles if role.role == "exploration").calls
    steps = -(-config.pairs.count * config.phase.epochs // config.phase.batch_size)
    return Workload(
        exploration=exploration,
        measuring=measuring,
        patches=consulted * layout.patches,
        evaluations=exploration.completions
        + measuring.completions
        + consulted * layout.patches
        + 2 * config.held_out_seeds,
        phases=phases,
        pairs=config.pairs.count,
        steps=steps,
        trained=round(phases * _trained_tokens(config, sizes)),
        compared=round(phases * _compared_tokens(config, sizes)),
        consultations=roles,
    )


def _tokens(text: str) -> float:
    return len(text) / MAIN_JOB.characters_per_token


def _prompt_tokens(style: Style, spec: ProgramTask, program: str) -> float:
    """Mean over the style's holes."""
    start = CandidateRecord(
        id=0, round=0, island=0, origin="seed", style="", hole="", parent_id=None, prompt="", completion="",
        program=program, program_key=None, status="ok", score=0.0,
    )  # fmt: skip
    holes = style.holes(program)
    prompts = [style.propose(start, hole, Showing(worse=start)).prompt for hole in holes]
    return sum(map(_tokens, prompts)) / max(1, len(prompts))


def _asked(prompts: int, samples: int, sizes: TextSizes) -> Asked:
    completions = prompts * samples
    return Asked(prompts, completions, round(prompts * sizes.prompt), round(completions * sizes.completion))


def _measurements(config: RunConfig, sizes: TextSizes) -> list[tuple[int, int]]:
    """(prompts, samples) that each phase asks besides exploration."""
    found = [(2 * (config.probe.prompts or sizes.holes), config.probe.samples)]
    if config.phase.reference == "gated":  # the reference, the checkpoints, the final policy
        found.append(((2 + config.phase.checkpoints) * config.phase.gate_prompts, config.gate_samples))
    return found


def _trained_tokens(config: RunConfig, sizes: TextSizes) -> float:
    """A phase's: packed sequences with their completions, and the reference once for every prompt."""
    pairs = config.pairs.count
    if not config.phase.packed:
        return 4 * pairs * config.phase.epochs * (sizes.prompt + sizes.completion)
    prompts = min(config.pairs.prompts, pairs)
    together = max(1.0, min(pairs / prompts, MAIN_JOB.batch_shared * config.phase.batch_size))
    sequences = config.phase.epochs * pairs / together
    trained = sequences * (sizes.prompt + 2 * together * sizes.completion)
    return trained + prompts * sizes.prompt + 2 * pairs * sizes.completion


def _compared_tokens(config: RunConfig, sizes: TextSizes) -> float:
    """A phase's: the reference and each candidate along the gate subset."""
    passes = 2 + (config.phase.checkpoints if config.phase.reference == "gated" else 0)
    completions = config.pairs.count / config.pairs.prompts * sizes.completion
    return passes * config.phase.gate_prompts * (sizes.prompt + completions)


def _consultations(config: RunConfig) -> tuple[Consultations, ...]:
    program = _tokens(make_task(config.env, **config.env_args).starts[config.start])
    advised = config.rounds // config.exploration.advise_every * config.exploration.islands
    asked = {"exploration": advised, "strategist": config.phases, "inspector": config.phases}
    # A template and the task are about as long as three programs, telemetry as one; see agents/supporters/prompts.
    told = {"exploration": 3 * program + 600, "strategist": 900, "inspector": 700}
    return tuple(
        _consultation(role, getattr(config.supporters, role), asked[role], told[role]) for role in asked
    )


def _consultation(role: str, settings: RoleSettings, calls: int, told: float) -> Consultations:
    if settings.form == "off":
        return Consultations(role, "off", 0, 0, 0)
    if settings.form == "rules" or settings.endpoint is None:
        return Consultations(role, "rules", calls, 0, 0)
    calls = min(calls, settings.limits.calls)
    written = calls * settings.endpoint.max_tokens // 4
    tokens = min(round(calls * told) + written, settings.limits.tokens)
    return Consultations(role, "llm", calls, tokens, min(written, tokens), settings.endpoint.model)
