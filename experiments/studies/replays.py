"""What would a run's first phase have come to otherwise? `python -m atlas_gym.experiments.studies.replays RUN …`

Each variant trains the base model again on answers that the run has stored (the agent's, and its supporter's to the
same prompts), all else equal: 256 pairs, passed at most eight times, until K̂L (Eq. 3, along prompts that no pair has)
is 0.4 nats per token. It shows how far the policy went, whether the run's budget would let it pass, and how likely it
has become that it writes lines that are known to be good (`known_lines`). With `--samples` each policy also writes
programs for instances that no run had: those that the runs' own measure names, or the bandits of `exam`.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from atlas_gym.agents.models.policy import POLICY, Policy
from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.arguments import at_least_one
from atlas_gym.evaluation import EvaluatorPool
from atlas_gym.experiments.studies import known_lines
from atlas_gym.experiments.studies.exam import EXAM, answers, panel_of, question
from atlas_gym.experiments.studies.measuring import base_policy, measure
from atlas_gym.seeding import stream, torch_seed
from atlas_gym.trainers.data.pairs import PreferencePair, build_pairs
from atlas_gym.trainers.evodpo.candidate_set import TuneJob, tune_here
from atlas_gym.trainers.evodpo.kl import Item
from atlas_gym.trainers.loop import phase_data
from atlas_gym.trainers.loop.config import RunConfig, load_config
from atlas_gym.trainers.loop.measure import BASE, MEASURE, Panel, learned
from atlas_gym.trainers.store.store import RunStore, StoreError

PAIRS = 256
"""Of a phase, at most, where neither its variant nor `--pairs` says otherwise."""
NORMAL: Mapping[str, Any] = {"epochs": 8, "checks": 8, "target_kl": 0.4}
"""Settings of the training that take the place of the run's."""


@dataclass(frozen=True)
class Variant:
    """What differs from the normal phase."""

    count: int | None = None
    """Pairs, at most, if not as many as all others have."""
    phase: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training."""
    keeps: Callable[[CandidateRecord], bool] = lambda record: True
    """Which answers there are to make pairs of."""


def _improves(record: CandidateRecord) -> bool:
    return (record.gain or 0.0) > 0.0


def _without(site: str) -> Variant:
    return Variant(keeps=lambda record: record.hole != site)


VARIANTS: Mapping[str, Variant] = {
    "normal": Variant(),
    **{f"{count} pairs": Variant(count) for count in (64, 128, 512, 1000)},
    **{f"to {kl} nats": Variant(phase={"target_kl": kl, "epochs": 16}) for kl in (0.1, 0.2, 0.8)},
    "gains above .01": Variant(keeps=lambda record: not _improves(record) or (record.gain or 0.0) > 0.01),
    "gains up to .01": Variant(keeps=lambda record: not _improves(record) or (record.gain or 0.0) <= 0.01),
    **{f"without {site}": _without(site) for site in dict.fromkeys(site for site, _ in known_lines.LINES)},
    "without the supervised term": Variant(phase={"supervised": 0.0}),
    "the agent's answers": Variant(keeps=lambda record: record.origin == "agent"),
    "the supporter's as chosen": Variant(
        keeps=lambda record: record.origin != "agent" or not _improves(record)
    ),
    "a runaway": Variant(phase={"epochs": 3, "learning_rate": 1e-3, "target_kl": 0.0}),
}


@dataclass(frozen=True)
class Source:
    """What a run has stored for its first phase."""

    config: RunConfig
    """The run's."""
    store: RunStore
    """The run's, open."""
    pool: Sequence[CandidateRecord]
    """Answers to make pairs of."""
    gate: Sequence[Item]
    """What K̂L is taken along: prompts that no pair has, and their best answers."""

    def pairs(self, variant: Variant, count: int = PAIRS) -> list[PreferencePair]:
        """The variant's; `count` at most, unless it says otherwise."""
        return build_pairs(
            [record for record in self.pool if variant.keeps(record)],
            replace(self.config.pairs, count=variant.count or count),
            stream(self.config.seed, "pairs", 1),
            # Of islands with tasks of their own scores are not compared.
            scale=lambda record: record.island % self.store.instances,
            parent_text=partial(phase_data.parent_text, self.store),
        )


def read_source(config: RunConfig, store: RunStore, tokenizer: Any) -> Source:
    """What a run has stored; raises `StoreError` if it has had no phase yet."""
    if not store.phases():
        raise StoreError(f"{store.folder} has had no phase yet")
    rng, last = stream(config.seed, "pair pool", 1), store.phases()[0]["round"]
    given = phase_data.answers(store, last, config.pairs.pool, rng, config.messages, store.lessons(1))
    pool = phase_data.writable(given, tokenizer, config.sampling, config.phase.max_tokens)
    passed = [record for record in pool if record.passed]
    apart = set(phase_data.gate_prompts(passed, config.gate, stream(config.seed, "gate prompts", 1)))
    best = {record.prompt: record for record in sorted(passed, key=lambda record: record.value)}
    kept = [record for record in pool if record.prompt not in apart]
    return Source(config, store, kept, [(prompt, best[prompt].completion) for prompt in sorted(apart)])


def replay(policy: Policy, source: Source, variant: Variant, count: int = PAIRS) -> dict[str, Any]:
    """Train a variant from the base model; what it came to."""
    config, pairs = source.config, source.pairs(variant, count)
    if not pairs:
        return {"pairs": 0}
    policy.reset(POLICY, torch_seed(config.seed, "phase", 1, "adapter") % 2**32)
    settings = replace(config.phase, **{**NORMAL, **variant.phase})
    gate = source.gate or [(pair.prompt, pair.chosen) for pair in pairs]
    tuned = tune_here(policy, TuneJob(tuple(pairs), settings, 0, tuple(gate), 1, config.seed))
    return {
        "pairs": len(pairs), "prompts": len({pair.prompt for pair in pairs}), "steps": len(tuned.training.steps),
        "kl": tuned.kls[POLICY].mean, "within": tuned.kls[POLICY].mean <= config.gate.max_kl,
    }  # fmt: skip


def _likely(policy: Policy, config: RunConfig) -> dict[str, float]:
    """How likely each known line is, and their mean; nothing is said of them by a run on another task."""
    if config.env != known_lines.ENV:
        return {}
    found = known_lines.nats(policy, POLICY, known_lines.asked_by(config))
    lines = (line.strip() for _, line in known_lines.LINES)
    return {"nats": fmean(found), **dict(zip(lines, found, strict=True))}


def _written(policy: Policy, config: RunConfig, panel: Panel, base: Mapping[str, Any]) -> dict[str, float]:
    """What a policy writes, by measure: the base model's, its own, and the half width of the difference's 95 %
    interval."""
    compared = learned({(BASE, MEASURE): base, (1, MEASURE): answers(policy, config, panel)})[1]
    found: dict[str, float] = {}
    for name, own in compared.items():
        found |= {f"{name}, base": own.base, name: own.tuned, f"{name} ±": own.difference.half_width}
    return found


def _config(run: Path, samples: int) -> RunConfig:
    """A run's, which asks of the instances that its own measure names, or those of the exam where it names none."""
    config = load_config(run / "config.yaml", {"measure": {"samples": samples}})
    if not samples or any(instance.env_args for instance in config.measure.instances):
        return config
    return load_config(run / "config.yaml", {"measure": {**EXAM, "samples": samples}})


def of_run(run: Path, options: Namespace, known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row a variant, the base model's first; `known` are its answers by questions, so that it is asked once."""
    config = _config(run, options.samples)
    policy = base_policy(config)
    with RunStore.open_readonly(run) as store, EvaluatorPool(1) as pool:
        source = read_source(config, store, policy.tokenizer)
        panel = panel_of(config, policy, pool, store)
        asked = question(config, panel) if options.samples else ""
        if asked and asked not in known:
            known[asked] = answers(policy, config, panel)
        yield {"run": run.name, "variant": "base model", "kl": 0.0, **_likely(policy, config)}
        for name in options.only or list(VARIANTS):
            row = {"run": run.name, "variant": name, **replay(policy, source, VARIANTS[name], options.pairs)}
            if row["pairs"]:
                row |= _likely(policy, config)
                row |= _written(policy, config, panel, known[asked]) if asked else {}
            yield row


def _rows(options: Namespace) -> Iterator[list[dict[str, Any]]]:
    known: dict[str, Any] = {}
    for run in options.runs:
        for row in of_run(run, options, known):
            yield [row]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what each variant of each run's first phase comes to."""
    own: dict[str, dict[str, Any]] = {
        "--only": {"nargs": "+", "choices": list(VARIANTS), "help": "these variants; default: all"},
        "--pairs": {"type": at_least_one, "default": PAIRS, "help": "at most, where a variant does not say"},
        "--samples": {"type": int, "default": 0, "help": "per question of the exam; default: no exam"},
    }
    measure("replays", __doc__, _rows, arguments, own, lambda rows: rows.round(3).iloc[0].to_string() + "\n")


if __name__ == "__main__":
    main()
