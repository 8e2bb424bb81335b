"""A fine-tuning phase within a run: its pairs, its probes, Ŝ, its adapters on disk, its row in the store.

`trainers.evodpo.phase` knows how to tune; this module knows where pairs come from and where results go. The order of
writing is what makes a phase redoable: adapters first (each atomically), then one transaction with the result
and the pairs. A phase without its row has not happened, and is run again from the adapters of the phase before.

Ŝ, the inspector's score of a policy, is the mean over fresh completions of the gate subset's prompts of what each
gains over its parent, between 0 and a limit (`gain_clip`): what fails or harms gains nothing, so that writing valid
programs alone is worth nothing. All policies of a phase answer the same prompts with the same seeds, so differences
are paired. The prompts are drawn from the whole buffer before pairs are formed, and no pair has one of them.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agents.engines.serving import Backend
from agents.models.adapters import AdapterError
from agents.models.policy import POLICY, REFERENCE, Policy
from agents.population.candidate import CandidateRecord, Proposal
from agents.research_agent import ResearchAgent
from agents.supporters import TuningControls
from atlas_gym.seeding import torch_seed
from trainers.data.evaluations import ProgramCache
from trainers.data.gate_buffer import worth
from trainers.data.measures import measurements
from trainers.data.pair_builder import why_no_pairs
from trainers.data.pairs import PreferencePair, ScoredCompletion
from trainers.data.rollouts import again, fresh_samples
from trainers.evodpo.candidate_set import Tune, tune_here
from trainers.evodpo.gate import GateDecision, gate_warnings
from trainers.evodpo.kl import Item
from trainers.evodpo.launch import launched
from trainers.evodpo.phase import PhaseResult, run_phase
from trainers.evodpo.phase_result import late_mean, sinking_warnings
from trainers.evodpo.settings import PhaseSettings
from trainers.loop.advisers import PhaseAdvisers, PhaseControls
from trainers.loop.config import RunConfig
from trainers.loop.measure import BASE, MEASURE, Panel
from trainers.loop.phase_data import PhaseData
from trainers.loop.probe import drawn_proposals, probe_proposals, take_probe
from trainers.loop.redo import redo_phase
from trainers.loop.teaching import Teacher
from trainers.store.plain import build, plain
from trainers.store.store import RunStore

Tell = Callable[..., None]

_BEFORE = "before"
"""Adapter that remembers the policy while its successor is being read."""

_BASE = "base"
"""Adapter that changes nothing, for as long as the base model is asked."""


class Tuning:
    """The fine-tuning phases of a run.

    Args:
        config: the run's configuration.
        policy: the policy that is tuned.
        backend: writes fresh samples with any adapter of the policy.
        agent: proposes what the probe asks.
        advisers: strategist and inspector.
        cache: evaluates fresh samples.
        store: the run store.
        tell: passes events to the observers.
        panel: asks base model and tuned policies the same questions; None: nobody is asked.
        teacher: answers the prompts of each phase; None if nobody does.

    Raises:
        LaunchError: phases are to run in processes of their own, and these cannot be started as configured.
    """

    def __init__(
        self,
        config: RunConfig,
        policy: Policy,
        backend: Backend,
        agent: ResearchAgent,
        advisers: PhaseAdvisers,
        cache: ProgramCache,
        store: RunStore,
        tell: Tell,
        panel: Panel | None = None,
        teacher: Teacher | None = None,
    ):
        self.config = config
        self.policy = policy
        self.backend = backend
        self.agent = agent
        self.advisers = advisers
        self._controls = PhaseControls(advisers.current_controls())
        self.cache = cache
        self._measured: dict[str, dict[str, float]] = {}
        self.store = store
        self._tell = tell
        self._data = PhaseData(config, store, policy.tokenizer, teacher, panel)
        self._panel = panel
        launch = config.launch
        self._tune: Tune = launched(launch, store.folder / "tuning") if launch.separate else tune_here

    def phase(self, number: int, first: int, last: int) -> None:
        """Do phase `number` after the rounds `first` to `last`, or restore it if it is stored."""
        stored = self.store.phases()
        if number <= len(stored):
            self._restore(stored[number - 1])
        else:
            self._run(number, first, last, stored)
        self._tell("phase", self.store.phases()[number - 1])

    def unseen(self, block: int, last: int) -> None:
        """The decisive probe, on the task of a block that no phase follows: base model against tuned policy.

        Prompts and parents are the new task's, so what a phase remembered of earlier numbers is of no use.
        """
        if self.config.probe.samples == 0:
            return
        self.policy.add(_BASE, copy_of=POLICY)
        self.policy.reset(_BASE, self.config.seed)
        try:
            for moment, adapter in (("base", _BASE), ("tuned", POLICY)):
                self._probe(block, moment, last, (), adapter)
        finally:
            self.policy.remove(_BASE)

    def _restore(self, row: dict[str, Any]) -> None:
        if row.get("skipped"):
            return
        self.policy.add(_BEFORE, copy_of=POLICY)
        try:
            for adapter in (POLICY, REFERENCE):
                self.policy.restore(adapter, self._folder(row["phase"], adapter))
        except AdapterError as error:
            self.policy.copy(_BEFORE, POLICY)
            self._tell("stage", f"phase {row['phase']}: tuning again, because {error}")
            self._redo(row)
        finally:
            self.policy.remove(_BEFORE)

    def _redo(self, phase: dict[str, Any]) -> None:
        number, config = phase["phase"], self.config
        nearby = tuple(build(TuningControls, controls) for controls in phase.get("alternatives", ()))
        controls = PhaseControls(build(TuningControls, phase["controls"]), nearby=nearby)
        pairs = [PreferencePair(**pair) for pair in self.store.phase_pairs(number)]
        _, gate = self._data.buffer(number, phase["round"])
        redo_phase(
            self.policy, pairs, controls.phase(config.phase), config.gate, phase,
            gate_items=_items(gate), alternatives=controls.alternatives(config.phase), seed=config.seed,
            tune=self._tune,
        )  # fmt: skip
        self._save(number)

    def _save(self, number: int) -> None:
        for adapter in (POLICY, REFERENCE):
            self.policy.save(adapter, self._folder(number, adapter))

    def _folder(self, number: int, adapter: str) -> Path:
        return self.store.folder / "adapters" / f"phase-{number:03d}" / adapter

    def _run(self, number: int, first: int, last: int, earlier: Sequence[dict[str, Any]]) -> None:
        """Phase k of Algorithm 1: G_k and D_k, the strategist, Eq. 2, Eqs. 3 to 5, the inspector."""
        self.advisers.begin()
        if reason := self._reason_to_skip(first, last):
            return self._skip(number, last, reason)
        buffer, gate = self._data.buffer(number, last)
        if self.config.teaches_phases:
            self._tell("stage", f"phase {number}: the exploration supporter answers the agent's prompts")
            buffer = self._data.taught(number, first, last, gate)
        settings, pairs = self._prepare(number, first, last, buffer)
        if not pairs:
            return self._skip(number, last, why_no_pairs(buffer, self.config.pairs))
        self._measure(BASE)
        self._probe(number, "before", last, pairs)
        self._tell("stage", f"phase {number}: tuning on {len(pairs)} pairs")
        outcome = run_phase(
            self.policy, pairs, settings, self.config.gate, self._scorer(number, pairs, gate),
            phase=number, seed=self.config.seed, gate_items=_items(gate),
            alternatives=self._controls.alternatives(self.config.phase),
            review=partial(self.advisers.review, number, self._measured),
            tune=self._tune,
        )  # fmt: skip
        self._save(number)
        self._probe(number, "after", last, pairs)
        self._measure(number)
        row = self._row(outcome, last, earlier) | {"chosen_from": self._data.origins(pairs)}
        self.store.add_phase(number, last, outcome.promoted, row, pairs, self.advisers.calls)
        for call in self.advisers.calls:
            if call.status == "skipped":
                self._tell("stage", f"{call.role}: no answer, the phase went on without: {call.reason}")
        return None

    def _skip(self, number: int, last: int, reason: str) -> None:
        result = {"phase": number, "round": last, "skipped": reason}
        self.store.add_phase(number, last, False, result, ())

    def _reason_to_skip(self, first: int, last: int) -> str:
        if not self.config.skip_idle_phases:
            return ""
        began = self.store.task_began(last)
        before = self.store.best_scores(began, max(began, first - 1))
        since = self.store.best_scores(max(first, began + 1), last)
        improved = any(score > before.get(instance, -math.inf) for instance, score in since.items())
        return "" if improved else f"exploration brought no improvement in rounds {first} to {last}"

    def _prepare(
        self, number: int, first: int, last: int, completions: Sequence[ScoredCompletion]
    ) -> tuple[PhaseSettings, list[PreferencePair]]:
        """The phase's settings and pairs after the strategist, who is told how many pairs there would be."""
        before = PhaseControls(self.advisers.current_controls())
        pairs = self._data.pairs(number, first, completions, before)
        self._controls = self.advisers.controls(number, first, last, pairs)
        if "score_threshold" in self._controls.changed:
            pairs = self._data.pairs(number, first, completions, self._controls)
        return self._controls.phase(self.config.phase), pairs

    def _scorer(
        self, number: int, pairs: Sequence[PreferencePair], gate: Sequence[ScoredCompletion]
    ) -> Callable[[str, Sequence[str]], list[float]]:
        answered = {pair.prompt: pair.chosen_id for pair in pairs}
        answered |= {completion.prompt: completion.candidate_id for completion in gate}

        def score(adapter: str, prompts: Sequence[str]) -> list[float]:
            proposals = [self._asked(self.store.candidate(answered[prompt])) for prompt in prompts]
            seeds = [torch_seed(self.config.seed, "gate", number, i) for i in range(len(prompts))]
            with self.backend.serving(adapter) as generator:
                groups = fresh_samples(generator, self.cache, proposals, self.config.gate.samples, seeds)
            records = [record for group in groups for record in group]
            self._measured[adapter] = measurements(records, self.agent.spec.errors)
            return [worth(group, self.config.gate_score, self.config.gain_clip) for group in groups]

        return score

    def _asked(self, answer: CandidateRecord) -> Proposal:
        """The proposal that this candidate answered."""
        proposal = self.store.proposal(answer.round, answer.island, answer.prompt)
        return again(proposal, answer.island, self.store.candidate(proposal.parent_id))

    def _probe(
        self, number: int, moment: str, last: int, pairs: Sequence[PreferencePair], adapter: str = POLICY
    ) -> None:
        if self.config.probe.samples == 0:
            return
        result = self.store.probe(number, moment)
        if result is None:
            proposals = self._probe_proposals(number, last, pairs)
            with self.backend.serving(adapter) as generator:
                result = take_probe(
                    generator, self.cache, proposals, self.config.probe,
                    margin=self.config.agent.min_gain, seed=self.config.seed,
                )  # fmt: skip
            self.store.add_probe(number, moment, result)
        self._tell("probe", number, moment, result)

    def _measure(self, number: int) -> None:
        """The policy's answers after a phase; before the first it is the base model."""
        if self._panel is None:
            return
        if self.store.probe(number, MEASURE) is None:
            self._tell("stage", "measuring on instances that no phase sees")
            with self.backend.serving(POLICY) as generator:
                self.store.add_probe(number, MEASURE, self._panel.answers(generator))
        self._tell("measured", number, self.store.probes())

    def _probe_proposals(self, number: int, last: int, pairs: Sequence[PreferencePair]) -> list[Proposal]:
        if self.config.probe.prompts:
            return drawn_proposals(
                self.agent, self.config.probe.prompts, number, {pair.prompt for pair in pairs}
            )
        return probe_proposals(self.agent.styles[0], self.store.start(last))

    def _row(self, outcome: PhaseResult, last: int, earlier: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What the store keeps of a phase: the result, with step averages and the gate's warnings."""
        row = plain(outcome)
        steps = row["steps"]
        decisions = [build(GateDecision, r["decision"]) for r in earlier if r.get("decision")]
        if outcome.decision is not None:
            decisions.append(outcome.decision)
        return row | {
            "round": last,
            "controls": plain(self._controls.controls),
            "alternatives": [plain(c) for c in self._controls.nearby],
            "changed_controls": list(self._controls.changed),
            "promoted": outcome.promoted,
            "kl": outcome.candidates[outcome.chosen].kl,
            "gain": outcome.candidates[outcome.chosen].gain,
            "gain_error": outcome.candidates[outcome.chosen].gain_error,
            "loss": sum(s["loss"] for s in steps) / len(steps),
            "margin": steps[-1]["margin"],
            "accuracy": sum(s["accuracy"] for s in steps) / len(steps),
            "chosen_reward": late_mean(outcome.steps, "chosen_reward"),
            "rejected_reward": late_mean(outcome.steps, "rejected_reward"),
            "warnings": [
                *(gate_warnings(decisions) if outcome.decision is not None else []),
                *sinking_warnings(outcome.steps, self._controls.controls.beta),
            ],
        }


def _items(completions: Sequence[ScoredCompletion]) -> list[Item]:
    return [(completion.prompt, completion.completion) for completion in completions]
