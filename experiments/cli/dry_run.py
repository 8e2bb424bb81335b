"""The plan as tables."""

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.cli.estimate import HOUR, Estimate, estimate
from experiments.cli.rates import ASSUMED_GPU, EVALUATION_CPU_S, MAIN_JOB, PARAMETERS, gpus_for
from experiments.cli.workload import Workload, count
from trainers.loop.config import RunConfig


def show_plan(config: RunConfig, console: Console) -> None:
    """Print what a run would do, what it would cost, and on what assumptions."""
    work = count(config)
    cost = estimate(config, work)
    console.print(_table(f"{config.name}: the plan", _plan(config, work)))
    console.print(_table("What that asks for, at most", _asked(work)))
    console.print(_table("What it would cost", _costs(config, work, cost)))
    console.print("[bold]Assumptions[/bold]")
    for line in _assumptions(config, cost):
        console.print(f"- {line}", highlight=False, markup=False)


def _table(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, width=110)
    table.add_column(ratio=3)
    table.add_column(ratio=8)
    for name, value in rows:
        table.add_row(name, escape(value))
    return table


def _plan(config: RunConfig, work: Workload) -> list[tuple[str, str]]:
    layout, phase = config.exploration, config.phase
    where = {"pool": "this machine", "ray": f"a Ray cluster ({config.ray_address or 'one on this machine'})"}
    rows = [
        ("environment", f"{config.env}, start {config.start}, seed {config.seed}"),
        ("method", config.method),
        (
            "exploration",
            f"{config.rounds} rounds x {layout.islands} islands x {layout.samples} samples = "
            f"{work.exploration.completions} candidates, {layout.groups} groups",
        ),
        ("styles", ", ".join(f"{name} {weight:g}" for name, weight in config.agent.styles.items())),
        ("model", f"{config.model} by {config.backend.name}, device {config.device}, base {config.lora.base}"),
        *(("islands of their own", f"{own.islands}: {own.model}") for own in config.island_models),
        (
            "tuning",
            f"{work.phases} phases of up to {work.pairs} pairs, {work.steps} steps each, "
            f"{config.launch.processes} process(es)" if work.phases else "none",
        ),
    ]  # fmt: skip
    if work.phases:
        rows += [
            ("reference, initialisation", f"{phase.reference}, {phase.initialisation}"),
            ("adapters", f"LoRA r {config.lora.rank}, alpha {config.lora.alpha}, {config.lora.targets}"),
        ]
    rows += [
        (
            f"supporter: {role.role}",
            f"{role.form}{f', {role.model}' if role.model else ''}, at most {role.calls} consultations",
        )
        for role in work.consultations
    ]
    return [*rows, ("evaluator", f"{where[config.evaluator]}, {config.workers} at a time")]


def _asked(work: Workload) -> list[tuple[str, str]]:
    agent = work.exploration + work.measuring
    return [
        (
            "prompts, samples",
            f"{agent.prompts:,}, {agent.completions:,} ({work.measuring.completions:,} to measure)",
        ),
        ("agent's tokens", f"{agent.read:,} read, {agent.drawn:,} drawn"),
        ("tokens trained, compared", f"{work.trained:,}, {work.compared:,}"),
        ("evaluations", f"{work.evaluations:,}, of which patches {work.patches:,}"),
        *(
            (f"supporter: {role.role}", f"{role.tokens:,} tokens, {role.written:,} of them written")
            for role in work.consultations
            if role.form == "llm"
        ),
    ]


def _costs(config: RunConfig, work: Workload, cost: Estimate) -> list[tuple[str, str]]:
    rows = [
        (
            "exploring",
            f"{_time(cost.exploring)} of generation, beside {_time(cost.evaluating)} of evaluation",
        ),
        ("evaluation", f"{cost.evaluating_cpu / HOUR:.2f} CPU hours"),
        ("gate's scores and probes", _time(cost.measuring)),
        ("tuning", _time(cost.tuning)),
    ]
    if cost.server_gpus:
        rows.append(("waiting for supporters", _time(cost.consulting)))
    rows.append(("from beginning to end", _time(cost.wall)))
    if cost.gpus + cost.server_gpus and cost.gpu_hours is not None:
        rows.append(
            (
                "GPU hours",
                f"{cost.gpu_hours:.1f}: {cost.gpus} GPU(s) of the run, {cost.server_gpus} of the servers",
            )
        )
    return rows


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "not known for this model"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:.1f} h"


def _assumptions(config: RunConfig, cost: Estimate) -> list[str]:
    evaluation = EVALUATION_CPU_S.get(config.env)
    lines = [
        "counts are upper bounds where the run decides: phases may be skipped, programs known already",
        f"a token is {MAIN_JOB.characters_per_token} characters, a line edit {MAIN_JOB.line_tokens} tokens, "
        f"{MAIN_JOB.batch_shared:.0%} of a batch share a prompt (measured in the main job)",
        f"an evaluation takes {evaluation or 1.0} CPU s ({'measured' if evaluation else 'assumed'}), "
        f"and {MAIN_JOB.evaluated:.0%} of the samples need one: the others are invalid or known (the main job)",
    ]
    if not cost.on_gpu:
        lines.append(
            f"two CPU cores generate {MAIN_JOB.generated:.0f}, train {MAIN_JOB.trained:.0f} and compare "
            f"{MAIN_JOB.compared:.0f} tokens per second (the embedded model, measured in the main job)"
        )
    else:
        gpu, name = ASSUMED_GPU, config.backend.name
        lines.append(
            f"a GPU with {gpu.bandwidth / 1e12:.1f} TB/s and {gpu.flops / 1e12:.0f} TFLOP/s, of which "
            f"{gpu.used_bandwidth:.0%} and {gpu.used_flops:.0%} are reached; a decoding step takes at least "
            f"{1000 * gpu.step(name):.0f} ms with {name} (assumed, not measured)"
        )
    models = sorted({r.endpoint.model for r in _endpoints(config)})
    if models:
        lines.append(
            f"a supporter's server writes {ASSUMED_GPU.stream:.0f} tokens per second and request, a quarter of "
            "the longest reply, one after the other (assumed)"
        )
        lines += [f"{model}: {gpus_for(model) or 1} GPU(s) of 80 GB{_known(model)}" for model in models]
    return lines


def _endpoints(config: RunConfig) -> list:
    roles = (config.supporters.exploration, config.supporters.strategist, config.supporters.inspector)
    return [role for role in roles if role.form == "llm" and role.endpoint is not None]


def _known(model: str) -> str:
    return "" if model in PARAMETERS else " (size read off its name, or one assumed)"
