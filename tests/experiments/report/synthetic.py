"""Run folders that look like real ones, made through the run store's own API in a second.

A small search is played: islands edit the constants of a real bandit program, a formula scores them, some
fail, phases promote or not, supporters speak. Among the candidates is one whose text attacks the page that
shows it.
"""

import math
import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from atlas_gym import make_task
from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.program_text import program_key
from atlas_gym.trainers.dpo.gate import gate_decision
from atlas_gym.trainers.dpo.settings import GateSettings
from atlas_gym.trainers.store.queries import held_out_key
from atlas_gym.trainers.store.store import RunStore

ATTACK = "</script><img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
_CONSTANTS = {"window": (50, 11), "lam": (1.0, 0.2), "alpha": (1.0, 0.4)}
"""Name → start, best."""


@dataclass(frozen=True)
class Layout:
    """Size and identity of a synthetic run."""

    method: str = "atlas"
    seed: int = 0
    rounds: int = 12
    planned_rounds: int = 12
    islands: int = 3
    instances: int = 1
    samples: int = 4
    phase_every: int = 4


def make_run(folder: Path, layout: Layout = Layout(), finished: bool = True) -> Path:
    """Write a run folder; returns it."""
    rng, start = random.Random(layout.seed), make_task("ATLAS-Bandit-v0").starts["named"]
    with RunStore(folder) as store:
        config = {
            "env": "ATLAS-Bandit-v0", "env_args": {}, "start": "named", "method": layout.method, "seed": layout.seed,
            "rounds": layout.planned_rounds, "phase_every": layout.phase_every, "held_out_seeds": 4,
            "exploration": {"islands": layout.islands, "samples": layout.samples},
            "phase": {"reference": "gated", "initialisation": "previous", "beta": 0.1},
        }  # fmt: skip
        (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        store.set_meta("run_id", f"synthetic-{layout.seed}")
        store.set_meta("instances", layout.instances)
        seeds = [
            Candidate(
                id=island * layout.samples, round=0, island=island, origin="seed", style="", site="", parent_id=None,
                prompt="", completion="", program=start, program_key=program_key(start), status="ok",
                score=_score(start), diagnosis="It loses a little everywhere.", duplicate_of=0 if island else None,
            )
            for island in range(layout.islands)
        ]  # fmt: skip
        store.add_round(0, seeds, {"round": 0})
        parents, first = dict(enumerate(seeds)), {seeds[0].program_key: 0}
        for round_ in range(1, layout.rounds + 1):
            _add_round(store, layout, rng, round_, parents, first)
            phase, rest = divmod(round_, layout.phase_every)
            if rest == 0 and round_ < layout.planned_rounds:
                _add_phase(store, rng, phase, round_)
        for record in (record for ends in store.ends() for record in ends if finished):
            scores = [record.score - 0.002 + 0.003 * i for i in range(4)]
            store.add_held_out(held_out_key(record, store.instances), {"scores": scores, "failed": []})
    return folder


def _add_round(store, layout, rng, round_, parents, first) -> None:
    """`parents`: the best of each island. `first`: the candidate that had a program first, by key."""
    records = []
    for island in range(layout.islands):
        for sample in range(layout.samples):
            parent, site = parents[island], rng.choice(list(_CONSTANTS))
            value = _CONSTANTS[site][0] * math.exp(rng.gauss(-0.7, 1.0))
            text, detail = f" {max(1, round(value))}" if site == "window" else f" {value:.3f}", ""
            if rng.random() < 0.25:
                text, detail = " undefined", "NameError: name 'undefined' is not defined"
            if (round_, island, sample) == (1, 0, 0):
                text, detail = f" '''{ATTACK}''' # \u202e\u2028", f"ValueError: {ATTACK}"
            program = re.sub(rf"{site} =.*\n", lambda _, line=f"{site} ={text}\n": line, parent.program)
            id_, key = (round_ * layout.islands + island) * layout.samples + sample, program_key(program)
            earlier = first.get(key)
            first.setdefault(key, id_)
            records.append(Candidate(
                id=id_, round=round_, island=island, origin="agent" if sample else "supporter",
                style="edit_line", site=f"{site} =", parent_id=parent.id, prompt=f"prompt of {round_}/{island}",
                completion=f"{text}\n", program=program, program_key=key, status="error" if detail else "ok",
                score=None if detail else _score(program), detail=detail, parent_score=parent.score,
                is_copy=key == parent.program_key, duplicate_of=earlier,
                diagnosis="" if detail else f"Most of the regret falls in quarter {rng.randrange(1, 5)}.",
            ))  # fmt: skip
    valid = [record for record in records if record.passed]
    store.add_round(round_, records, {
        "round": round_, "samples": len(records), "valid": len(valid), "new": sum(not r.is_copy for r in valid),
        "improving": sum((r.gain or 0) > 0.002 for r in valid),
        "distinct": len({r.program_key for r in valid if r.duplicate_of is None}),
        "statuses": Counter(str(record.status) for record in records),
        "writers": {
            name: [n, sum((r.gain or 0) > 0.002 for r in valid if r.writer == name)]
            for name, n in Counter(record.writer for record in records).items()
        },
        "best": max((r.score for r in valid), default=None),
        "tokens": 9 * len(records), "generation_s": 1.5, "evaluation_wait_s": 0.25,
        "drawn": len(records), "smoke_runs": len(records), "smoke_failed": 0,
    })  # fmt: skip
    for record in valid:
        parents[record.island] = max(record, parents[record.island], key=lambda own: own.score)


def _add_phase(store, rng, phase, round_) -> None:
    decision = gate_decision(rng.gauss(0.01, 0.02), rng.uniform(0.03, 0.6), GateSettings())
    strategist = SupporterCall(
        role="strategist", form="rules", model="", key=("phase", phase), status="ok", reply=ATTACK, seconds=0.01,
        prompt_tokens=7, completion_tokens=3, outcome="beta = 0.15, epochs = 2 | losses have settled",
    )  # fmt: skip
    inspector = replace(strategist, role="inspector", outcome=f"accepted | {ATTACK}")
    exploration = replace(strategist, role="exploration", status="skipped", reason="deadline")
    steps = [{"step": step, "loss": 0.7 - step / 50, "margin": step / 10} for step in (1, 2, 3)]
    store.add_phase(phase, round_, decision.promote, {
        "phase": phase, "round": round_, "pairs": 64, "chosen_from": {"agent": 40, "supporter": 24},
        "tokens": 900 * phase, "steps": steps, "kls": [[3, decision.kl]],
        "seconds": {"train": 31.0, "kl": 2.5, "score": 7.5}, "promoted": decision.promote, "kl": decision.kl,
        "gain": decision.gain, "gain_error": 0.01, "decision": vars(decision), "warnings": [],
        "controls": {"beta": 0.15, "score_threshold": 0.3, "epochs": 2, "learning_rate": 2e-4},
        "changed_controls": ["beta", "epochs"],
    }, [], [strategist, inspector, exploration])  # fmt: skip


def _score(program: str) -> float:
    distance = 0.0
    for name, (_, best) in _CONSTANTS.items():
        found = re.search(rf"\b{name} = ([\d.]+)", program)
        distance += abs(math.log(float(found.group(1)) / best)) if found else 1.0
    return -0.08 - 0.03 * distance
