"""A fine-tuning phase of the loop (Algorithm 1): its data, the training and the gate, and what is stored of it.

`Tuning.take` is the phase from top to bottom; `trainers.dpo.phase` trains and decides. The order of writing is what
makes a phase repeatable: adapters first (each atomically), then one transaction with the result and the pairs. A phase
without its row has not happened, and is run again from the adapters of the phase before.

Ŝ, the gate's score of a policy, is the mean over fresh completions of the gate subset's prompts of what each gains over
its parent, between 0 and a limit (`GAIN_CLIP`): what fails or harms gains nothing, so that writing valid programs alone
is worth nothing. Or it is the likelihood of answers that are known to improve (`gate_score`). All policies of a phase
answer the same prompts with the same seeds, so differences are paired. The prompts are drawn from the whole buffer
before pairs are formed, and no pair has one of them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.agents.supporters.consult import SupporterCall
from atlas_gym.agents.supporters.strategist import StrategyAdvice, TuningControls
from atlas_gym.seeding import torch_seed
from atlas_gym.trainers.data.measures import mean_gain, measurements
from atlas_gym.trainers.data.pairs import PreferencePair, why_no_pairs
from atlas_gym.trainers.data.rollouts import again, fresh_samples
from atlas_gym.trainers.dpo.gate import GateDecision, gate_warnings
from atlas_gym.trainers.dpo.kl import log_known_gain
from atlas_gym.trainers.dpo.launch import train_in_processes
from atlas_gym.trainers.dpo.phase import PhaseResult, Scorer, late_mean, run_phase, sinking_warnings
from atlas_gym.trainers.dpo.train import train
from atlas_gym.trainers.loop.advisers import PhaseAdvisers, trained_under
from atlas_gym.trainers.loop.exam import BASE, Exam
from atlas_gym.trainers.loop.phase_data import PhaseData
from atlas_gym.trainers.loop.resources import Parts
from atlas_gym.trainers.loop.teaching import Teacher
from atlas_gym.trainers.store.plain import plain


class Tuning:
    """The fine-tuning phases of a run, which tune this policy."""

    def __init__(self, run: Parts, policy: Policy):
        self.run, self.policy = run, policy
        self.config, self.store, self.tell = run.config, run.store, run.tell
        asked = self.config.exam.samples > 0
        self.exam = Exam(self.config, run.tasks, run.agent.styles, run.pool, run.store) if asked else None
        self.data = PhaseData(run, policy.tokenizer, self.exam)
        supporter = run.supporters.exploration if self.config.teaching else None
        self.teacher = Teacher(run, supporter) if supporter else None
        self.advisers = PhaseAdvisers(self.config, run.supporters, self.store)
        self._fresh: dict[str, Callable[[], list[list[Candidate]]]] = {}

    def take(self, k: int) -> None:
        """Phase k, after the k-th block of rounds: both adapters move, or neither does. Raises `AdapterError`: the
        phase is stored, and its adapters are lost or damaged."""
        config, store = self.config, self.store
        first, last = config.blocks[k - 1]
        if len(store.phases()) >= k:  # what is stored is read
            row = store.phases()[k - 1]
            self._fold_taught(k)
            if not row.get("skipped"):
                self.run.agent.tuned()
                for adapter, saved in ((POLICY, row["policy_digest"]), (REFERENCE, row["reference_digest"])):
                    self.policy.restore(adapter, self._folder(k, adapter), saved)
            return None
        if config.skip_idle_phases:  # paper, B.4
            before, since = store.best_scores(0, first - 1), store.best_scores(first, last)
            if not any(score > before.get(instance, -math.inf) for instance, score in since.items()):
                return self._skip(k, f"exploration brought no improvement in rounds {first} to {last}")

        # D_k, of all that was written and taught so far, less the prompts of G_k, which are drawn before anybody
        # teaches.
        held_apart = self.data.gate_prompts(k)
        if self.teacher is not None:
            self.tell("stage", f"phase {k}: the exploration supporter answers the agent's prompts")
            self.teacher.teach(k, first, last, set(held_apart))
            self._fold_taught(k)
        buffer, G_k = self.data.buffer(k, held_apart)

        def built(controls: TuningControls) -> list[PreferencePair]:
            return self.data.pairs(k, buffer, replace(config.pairs, chosen_quantile=controls.score_threshold))

        # The strategist is told how many pairs there would be without it; its threshold may change them.
        D_k = built(self.advisers.current_controls())
        advice = self.advisers.strategy(k, len(D_k))
        if "score_threshold" in advice.changed:
            D_k = built(advice.controls)
        if not D_k:
            return self._skip(k, why_no_pairs(buffer, config.pairs), self.advisers.calls)

        # Eqs. 2 to 5: the checkpoints C_k, K̂L and Ŝ of each along G_k, one of them proposed, the gate and the
        # inspector.
        self.take_exam(BASE)
        self.tell("stage", f"phase {k}: tuning on {len(D_k)} pairs")
        settings = trained_under(config.phase, advice.controls)
        elsewhere = partial(train_in_processes, folder=store.folder / "tuning")
        outcome = run_phase(
            self.policy, D_k, settings, config.gate, self.scorer(k, D_k, G_k), phase=k, seed=config.seed,
            gate_items=[(record.prompt, record.completion) for record in G_k],
            review=partial(self.advisers.review, k, self._measured),
            train=elsewhere if settings.processes > 1 else train,
        )  # fmt: skip

        for adapter in (POLICY, REFERENCE):
            self.policy.save(adapter, self._folder(k, adapter))
        self.take_exam(k)
        row = self._row(outcome, advice) | {"chosen_from": self.data.origins(D_k)}
        store.add_phase(k, last, outcome.promoted, row, D_k, self.advisers.calls)
        self.run.agent.tuned()
        for call in self.advisers.calls:
            if call.status == "skipped":
                self.tell("stage", f"{call.role}: no answer, the phase went on without: {call.reason}")
        return None

    def _fold_taught(self, k: int) -> None:
        for record in self.store.taught(k, first=k):
            self.run.cache.record(record)
            self.run.agent.record(record)

    def take_exam(self, number: int) -> None:
        """Ask the policy the exam's questions after a phase; before the first it is the base model."""
        if self.exam is None or (number == BASE and BASE in self.store.exams()):
            return
        self.tell("stage", "the exam, on instances that no phase sees")
        with self.run.backend.serving(POLICY) as generator:
            self.store.add_exam(number, self.exam.answers(generator))
        self.tell("exam", number, self.store.exams())

    def scorer(self, k: int, pairs: Sequence[PreferencePair], gate: Sequence[Candidate]) -> Scorer:
        """Ŝ of an adapter by prompt; of likelihood, only of prompts with an answer that is known to improve."""
        kind = self.config.gate_score
        answered = {pair.prompt: pair.chosen_id for pair in pairs}
        answered |= {record.prompt: record.id for record in gate}
        known = self.data.known(k, list(answered)) if kind == "likelihood" else {}

        def score(adapter: str, prompts: Sequence[str]) -> list[float]:
            answers = cache(partial(self._answers, k, adapter, [answered[prompt] for prompt in prompts]))
            self._fresh[adapter] = answers
            if kind == "likelihood":
                return log_known_gain(self.policy, adapter, {x: known[x] for x in prompts if x in known})
            return [mean_gain(group) for group in answers()]

        return score

    def _answers(self, k: int, adapter: str, ids: Sequence[int]) -> list[list[Candidate]]:
        """An adapter's fresh answers to the prompts that these candidates answered."""
        proposals = []
        for answer in map(self.store.candidate, ids):
            proposal = self.store.proposal(answer.round, answer.island, answer.prompt)
            proposals.append(again(proposal, answer.island, self.store.candidate(proposal.parent_id)))
        seeds = [torch_seed(self.config.seed, "gate", k, i) for i in range(len(ids))]
        with self.run.backend.serving(adapter) as generator:
            return fresh_samples(generator, self.run.cache, proposals, self.config.gate.samples, seeds)

    def _measured(self, adapter: str) -> tuple[int, Mapping[str, float]]:
        """Number of an adapter's fresh samples, and what the inspector is told of them. Where Ŝ asks for none they are
        drawn only now, of the two policies that the gate compares."""
        records = [record for group in self._fresh[adapter]() for record in group]
        return len(records), measurements(records, self.run.agent.spec.errors)

    def _folder(self, k: int, adapter: str) -> Path:
        return self.store.phase_folder(k) / adapter

    def _skip(self, k: int, reason: str, calls: Sequence[SupporterCall] = ()) -> None:
        """Store the phase as one that did nothing, and the consultations that it has cost all the same."""
        last = self.config.blocks[k - 1][1]
        self.store.add_phase(k, last, False, {"phase": k, "round": last, "skipped": reason}, (), calls)

    def _row(self, outcome: PhaseResult, advice: StrategyAdvice) -> dict[str, Any]:
        """What the store keeps of a phase: the result, with step averages and the gate's warnings."""
        row, chosen = plain(outcome), outcome.checkpoints[outcome.chosen]
        _, last = self.config.blocks[outcome.phase - 1]
        earlier = [GateDecision(**r["decision"]) for r in self.store.phases() if r.get("decision")]
        return row | {
            "round": last,
            "controls": plain(advice.controls),
            "changed_controls": list(advice.changed),
            "kl": chosen.kl,
            "gain": chosen.gain,
            "gain_error": chosen.gain_error,
            "chosen_reward": late_mean(outcome.steps, "chosen_reward"),
            "warnings": [
                *(gate_warnings([*earlier, outcome.decision]) if outcome.decision is not None else []),
                *sinking_warnings(outcome.steps, advice.controls.beta),
            ],
        }
