"""Run folders that look like real ones, made through the run store's own API in a second.

A small search is played: islands edit the constants of a real bandit program, a formula scores them, some
fail, phases promote or not, supporters speak. Among the candidates is one whose text attacks the page that
shows it.
"""

import math
import random
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from atlas_gym import make_task
from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.agents.supporters.consult import Role, SupporterCall
from atlas_gym.program_text import program_key
from atlas_gym.trainers.dpo.gate import gate_decision
from atlas_gym.trainers.dpo.settings import GateSettings
from atlas_gym.trainers.store.queries import held_out_key
from atlas_gym.trainers.store.store import RunStore

ATTACK = "</script><img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
HOSTILE_DETAIL = f"ValueError: {ATTACK}"
_CONSTANTS = {"window": (50, 11), "lam": (1.0, 0.2), "alpha": (1.0, 0.4)}


@dataclass(frozen=True)
class Layout:
    """Size and identity of a synthetic run."""

    method: str = "atlas"
    env: str = "ATLAS-Bandit-v0"
    seed: int = 0
    rounds: int = 12
    planned_rounds: int = 12
    islands: int = 3
    instances: int = 1
    samples: int = 4
    phase_every: int = 4


@dataclass
class _Search:
    layout: Layout
    rng: random.Random
    start: str
    parents: dict[int, Candidate] = field(default_factory=dict)
    first: dict[str, Candidate] = field(default_factory=dict)


def make_run(folder: Path, layout: Layout = Layout(), finished: bool = True) -> Path:
    """Write a run folder; returns it."""
    search = _Search(layout, random.Random(layout.seed), make_task("ATLAS-Bandit-v0").starts["named"])
    with RunStore(folder) as store:
        write_config(folder, layout)
        store.set_meta("run_id", f"synthetic-{layout.seed}")
        store.set_meta("instances", layout.instances)
        seeds = [_seed(search, island) for island in range(layout.islands)]
        store.add_round(0, seeds, {"round": 0})
        for round_ in range(1, layout.rounds + 1):
            add_round(store, search, round_)
            phase, rest = divmod(round_, layout.phase_every)
            if rest == 0 and round_ < layout.planned_rounds:
                add_phase(store, search, phase, round_)
        if finished:
            _confirm(store)
    return folder


def write_config(folder: Path, layout: Layout) -> None:
    """The settings that a report reads of a run."""
    config = {
        "env": layout.env, "env_args": {}, "start": "named", "method": layout.method, "seed": layout.seed,
        "rounds": layout.planned_rounds, "phase_every": layout.phase_every, "held_out_seeds": 4,
        "exploration": {"islands": layout.islands, "samples": layout.samples},
        "phase": {"reference": "gated", "initialisation": "previous", "beta": 0.1},
    }  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def add_round(store: RunStore, search: _Search, round_: int) -> None:
    """One round of all islands as a single unit."""
    records = [
        _sample(search, round_, island, sample)
        for island in range(search.layout.islands)
        for sample in range(search.layout.samples)
    ]
    valid = [r for r in records if r.passed]
    summary = {
        "round": round_, "samples": len(records), "valid": len(valid), "new": sum(not r.is_copy for r in valid),
        "improving": sum((r.gain or 0) > 0.002 for r in valid),
        "distinct": len({r.program_key for r in valid if r.duplicate_of is None}),
        "statuses": Counter(str(record.status) for record in records),
        "best": max((r.score for r in valid), default=None),
        "tokens": 9 * len(records), "generation_s": 1.5, "evaluation_wait_s": 0.25,
        "drawn": len(records), "smoke_runs": len(records), "smoke_failed": 0,
    }  # fmt: skip
    store.add_round(round_, records, summary)
    for record in valid:
        if record.score > search.parents[record.island].score:
            search.parents[record.island] = record


def add_phase(store: RunStore, search: _Search, phase: int, round_: int) -> None:
    """A phase with its gate decision and what the supporters said about it."""
    decision = gate_decision(search.rng.gauss(0.01, 0.02), search.rng.uniform(0.03, 0.6), GateSettings())
    said = ("beta = 0.15, epochs = 2 | losses have settled", f"accepted | {ATTACK}")
    calls = [call("strategist", said[0], phase), call("inspector", said[1], phase),
             replace(call("exploration", "", phase), status="skipped", reason="deadline")]  # fmt: skip
    result = {
        "phase": phase, "round": round_, "pairs": 64, "chosen_from": {"agent": 40, "supporter": 24},
        "loss": 0.61, "margin": 0.2, "accuracy": 0.7,
        "tokens": 900 * phase, "steps": [_step(step) for step in (1, 2, 3)], "kls": [[3, decision.kl]],
        "seconds": {"train": 31.0, "kl": 2.5, "score": 7.5}, "promoted": decision.promote, "kl": decision.kl,
        "gain": decision.gain, "gain_error": 0.01,
        "controls": {"beta": 0.15, "score_threshold": 0.3, "epochs": 2, "learning_rate": 2e-4},
        "changed_controls": ["beta", "epochs"], "decision": vars(decision), "warnings": [], "chosen": 1,
        "candidates": [{"name": f"checkpoint-{k}", "kl": decision.kl * k / 2, "gain": decision.gain * k / 2}
                       for k in (1, 2)],
    }  # fmt: skip
    store.add_phase(phase, round_, decision.promote, result, [], calls)


def _step(step: int) -> dict[str, float]:
    return {"step": step, "loss": 0.7 - step / 50, "margin": step / 10, "accuracy": 0.5 + step / 20,
            "chosen_reward": step / 30, "rejected_reward": -step / 15, "grad_norm": 1 / step,
            "entropy": 2.0}  # fmt: skip


def call(role: Role, outcome: str, phase: int = 0) -> SupporterCall:
    """An answered consultation, whose reply attacks the page."""
    return SupporterCall(
        role=role, form="rules", model="", key=("phase", phase), status="ok", reply=ATTACK, seconds=0.01,
        prompt_tokens=7, completion_tokens=3, outcome=outcome,
    )  # fmt: skip


def _seed(search: _Search, island: int) -> Candidate:
    record = Candidate(
        id=island * search.layout.samples, round=0, island=island, origin="seed", style="", site="", parent_id=None,
        prompt="", completion="", program=search.start, program_key=program_key(search.start), status="ok",
        score=_score(search.start), metrics={"normalized_score": 0.6},
        diagnosis="The start loses a little everywhere.", duplicate_of=0 if island else None,
    )  # fmt: skip
    search.parents[island] = record
    search.first.setdefault(record.program_key or "", record)
    return record


def _sample(search: _Search, round_: int, island: int, sample: int) -> Candidate:
    rng, parent = search.rng, search.parents[island]
    site = rng.choice(list(_CONSTANTS))
    completion, status, detail = f" {_draw(rng, site)}\n", "ok", ""
    if rng.random() < 0.25:
        completion, status, detail = " undefined\n", "error", "NameError: name 'undefined' is not defined"
    if (round_, island, sample) == (1, 0, 0):
        completion, status, detail = f" '''{ATTACK}''' # \u202e\u2028\n", "error", HOSTILE_DETAIL
    program = re.sub(rf"{site} =.*\n", lambda _: f"{site} ={completion}", parent.program)
    key = program_key(program)
    earlier = search.first.get(key or "")
    passed = status == "ok"
    record = Candidate(
        id=(round_ * search.layout.islands + island) * search.layout.samples + sample, round=round_, island=island,
        origin="supporter" if rng.random() < 0.05 else "agent", style="edit_line", site=f"{site} =",
        parent_id=parent.id, prompt=f"prompt of {round_}/{island}", completion=completion, program=program,
        program_key=key, status=status, score=_score(program) if passed else None, detail=detail,
        metrics={"normalized_score": rng.random()} if passed else {}, parent_score=parent.score,
        is_copy=key == parent.program_key, duplicate_of=earlier.id if earlier else None,
        diagnosis=f"Most of the regret falls in quarter {rng.randrange(1, 5)}." if passed else "",
    )  # fmt: skip
    if key:
        search.first.setdefault(key, record)
    return record


def _draw(rng: random.Random, site: str) -> str:
    value = _CONSTANTS[site][0] * math.exp(rng.gauss(-0.7, 1.0))
    return str(max(1, round(value))) if site == "window" else f"{value:.3f}"


def _score(program: str) -> float:
    distance = 0.0
    for name, (_, best) in _CONSTANTS.items():
        found = re.search(rf"\b{name} = ([\d.]+)", program)
        distance += abs(math.log(float(found.group(1)) / best)) if found else 1.0
    return -0.08 - 0.03 * distance


def _confirm(store: RunStore) -> None:
    for ends in store.ends():
        for record in ends:
            scores = [record.score - 0.002 + 0.003 * i for i in range(4)]
            store.add_held_out(held_out_key(record, store.instances), {"scores": scores, "failed": []})
