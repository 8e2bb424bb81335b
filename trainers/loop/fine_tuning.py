"""What a fine-tuning phase needs of its run: pairs, settings, Ŝ, its adapters on disk, its row in the store.

`trainers.loop.atlas` takes the steps and `trainers.dpo.phase` knows how to tune; this module knows where pairs come
from and where results go. The order of writing is what makes a phase redoable: adapters first (each atomically), then
one transaction with the result and what it was trained on. A phase without its row has not happened, and is run again
from the adapters of the phase before.

Ŝ, the inspector's score of a policy, is the mean over fresh completions of the gate subset's prompts of what each
gains over its parent, between 0 and a limit (`GAIN_CLIP`): what fails or harms gains nothing, so that writing valid
programs alone is worth nothing. Or it is the likelihood of answers that are known to improve (`gate_score`). All
policies of a phase answer the same prompts with the same seeds, so differences are paired. The prompts are drawn from
the whole buffer before pairs are formed, and no pair has one of them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.population.candidate import Candidate, Proposal
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
    """The steps of a run's fine-tuning phases.

    Args:
        run: the parts of the run.
        policy: the policy that is tuned.
    """

    def __init__(self, run: Parts, policy: Policy):
        self.run, self.policy = run, policy
        self.config, self.store, self.tell = run.config, run.store, run.tell
        asked = self.config.exam.samples > 0
        self.exam = Exam(self.config, run.tasks, run.agent.styles, run.pool, run.store) if asked else None
        self.data = PhaseData(run, policy.tokenizer, self.exam)
        supporter = run.supporters.exploration if self.config.teaches_phases else None
        self.teacher = Teacher(run, supporter) if supporter else None
        self.advisers = PhaseAdvisers(self.config, run.supporters, self.store)
        self._fresh: dict[str, Callable[[], list[list[Candidate]]]] = {}

    def restore(self, number: int) -> bool:
        """Whether phase `number` is stored; its adapters are read then.

        Raises:
            AdapterError: they are lost or damaged.
        """
        stored = self.store.phases()
        if number > len(stored):
            return False
        row = stored[number - 1]
        if not row.get("skipped"):
            for adapter, saved in ((POLICY, row["policy_digest"]), (REFERENCE, row["reference_digest"])):
                self.policy.restore(adapter, self._folder(number, adapter), saved)
        return True

    def _save(self, number: int) -> None:
        for adapter in (POLICY, REFERENCE):
            self.policy.save(adapter, self._folder(number, adapter))

    def _folder(self, number: int, adapter: str) -> Path:
        return self.store.folder / "adapters" / f"phase-{number:03d}" / adapter

    def idle(self, number: int) -> str:
        """Why a phase is to be skipped after its rounds; empty if it is not."""
        if not self.config.skip_idle_phases:
            return ""
        first, last = self.config.blocks[number - 1]
        before, since = self.store.best_scores(0, first - 1), self.store.best_scores(first, last)
        improved = any(score > before.get(instance, -math.inf) for instance, score in since.items())
        return "" if improved else f"exploration brought no improvement in rounds {first} to {last}"

    def skip(self, number: int, reason: str, calls: Sequence[SupporterCall] = ()) -> None:
        """Store the phase as one that did nothing, and the consultations that it has cost all the same."""
        _, last = self.config.blocks[number - 1]
        row = {"phase": number, "round": last, "skipped": reason}
        self.store.add_phase(number, last, False, row, (), calls)

    def buffer(self, number: int) -> tuple[list[Candidate], list[Candidate]]:
        """What D_k may be made of, the phase's lessons included, and the preferred answers to the prompts of G_k."""
        apart = self.data.apart(number)
        if self.teacher is not None:
            self.tell("stage", f"phase {number}: the exploration supporter answers the agent's prompts")
            self.teacher.teach(number, *self.config.blocks[number - 1], set(apart))
        return self.data.buffer(number, apart)

    def examples(
        self, number: int, buffer: Sequence[Candidate]
    ) -> tuple[StrategyAdvice, list[PreferencePair]]:
        """What the strategist says, who is told how much there would be to train on without it; and D_k with it."""

        def built(controls: TuningControls) -> list[PreferencePair]:
            settings = replace(self.config.pairs, chosen_quantile=controls.score_threshold)
            return self.data.pairs(number, buffer, settings)

        before = built(self.advisers.current_controls())
        advice = self.advisers.strategy(number, len(before))
        return advice, built(advice.controls) if "score_threshold" in advice.changed else before

    def why_nothing(self, number: int, buffer: Sequence[Candidate]) -> str:
        """In words, why there is no D_k."""
        return why_no_pairs(buffer, self.config.pairs)

    def tune(
        self,
        number: int,
        advice: StrategyAdvice,
        examples: Sequence[PreferencePair],
        gate: Sequence[Candidate],
    ) -> PhaseResult:
        """The phase itself (`trainers.dpo.phase`) under the strategist's settings, once the policy as it is has been
        asked."""
        self.take_exam(BASE)
        self.tell("stage", f"phase {number}: tuning on {len(examples)} pairs")
        settings = trained_under(self.config.phase, advice.controls)
        elsewhere = partial(train_in_processes, folder=self.store.folder / "tuning")
        return run_phase(
            self.policy, examples, settings, self.config.gate, self._scorer(number, examples, gate),
            phase=number, seed=self.config.seed,
            gate_items=[(record.prompt, record.completion) for record in gate],
            review=partial(self.advisers.review, number, self._measured),
            train=elsewhere if settings.processes > 1 else train,
        )  # fmt: skip

    def _scorer(self, number: int, examples: Sequence[PreferencePair], gate: Sequence[Candidate]) -> Scorer:
        """Ŝ of an adapter by prompt; of likelihood, only of prompts with an answer that is known to improve."""
        kind = self.config.gate_score
        answered = {example.prompt: example.chosen_id for example in examples}
        answered |= {record.prompt: record.id for record in gate}
        known = self.data.known(number, list(answered)) if kind == "likelihood" else {}

        def score(adapter: str, prompts: Sequence[str]) -> list[float]:
            answers = cache(partial(self._answers, number, adapter, [answered[prompt] for prompt in prompts]))
            self._fresh[adapter] = answers
            if kind == "likelihood":
                return log_known_gain(self.policy, adapter, {x: known[x] for x in prompts if x in known})
            return [mean_gain(group) for group in answers()]

        return score

    def _answers(self, number: int, adapter: str, ids: Sequence[int]) -> list[list[Candidate]]:
        """An adapter's fresh answers to the prompts that these candidates answered."""
        proposals = [self._asked(self.store.candidate(id_)) for id_ in ids]
        seeds = [torch_seed(self.config.seed, "gate", number, i) for i in range(len(ids))]
        with self.run.backend.serving(adapter) as generator:
            return fresh_samples(generator, self.run.cache, proposals, self.config.gate.samples, seeds)

    def _measured(self, adapter: str) -> tuple[int, Mapping[str, float]]:
        """Of how many samples of an adapter the inspector is told what. Where Ŝ asks for none they are drawn only now,
        of the two policies that the gate compares."""
        records = [record for group in self._fresh[adapter]() for record in group]
        return len(records), measurements(records, self.run.agent.spec.errors)

    def _asked(self, answer: Candidate) -> Proposal:
        """The proposal that this candidate answered."""
        proposal = self.store.proposal(answer.round, answer.island, answer.prompt)
        return again(proposal, answer.island, self.store.candidate(proposal.parent_id))

    def record(
        self, number: int, advice: StrategyAdvice, examples: Sequence[PreferencePair], outcome: PhaseResult
    ) -> None:
        """Store what came of the phase, and ask the policy as it is now."""
        self._save(number)
        if self.config.exam.every_phase:
            self.take_exam(number)
        row = self._row(outcome, advice) | {"chosen_from": self.data.origins(examples)}
        self.store.add_phase(number, row["round"], outcome.promoted, row, examples, self.advisers.calls)
        for call in self.advisers.calls:
            if call.status == "skipped":
                self.tell("stage", f"{call.role}: no answer, the phase went on without: {call.reason}")

    def conclude(self) -> None:
        """Ask the policy that the phases have led to, where each has not been asked after its phase."""
        tuned = self.store.tuned_phases()
        if tuned and not self.config.exam.every_phase:
            self.take_exam(tuned[-1]["phase"])

    def take_exam(self, number: int) -> None:
        """Ask the policy the exam's questions after a phase; before the first it is the base model."""
        if self.exam is None:
            return
        taken = number in self.store.exams()
        if not taken:
            self.tell("stage", "the exam, on instances that no phase sees")
            with self.run.backend.serving(POLICY) as generator:
                self.store.add_exam(number, self.exam.answers(generator))
        if not (taken and number == BASE):  # every phase begins with it
            self.tell("exam", number, self.store.exams())

    def _row(self, outcome: PhaseResult, advice: StrategyAdvice) -> dict[str, Any]:
        """What the store keeps of a phase: the result, with step averages and the gate's warnings."""
        row = plain(outcome)
        _, last = self.config.blocks[outcome.phase - 1]
        steps, chosen = row["steps"], outcome.checkpoints[outcome.chosen]
        earlier = [GateDecision(**r["decision"]) for r in self.store.phases() if r.get("decision")]
        return row | {
            "round": last,
            "controls": plain(advice.controls),
            "changed_controls": list(advice.changed),
            "kl": chosen.kl,
            "gain": chosen.gain,
            "gain_error": chosen.gain_error,
            "loss": sum(s["loss"] for s in steps) / len(steps),
            "margin": steps[-1]["margin"],
            "accuracy": sum(s["accuracy"] for s in steps) / len(steps),
            "chosen_reward": late_mean(outcome.steps, "chosen_reward"),
            "rejected_reward": late_mean(outcome.steps, "rejected_reward"),
            "warnings": [
                *(gate_warnings([*earlier, outcome.decision]) if outcome.decision is not None else []),
                *sinking_warnings(outcome.steps, advice.controls.beta),
            ],
        }
