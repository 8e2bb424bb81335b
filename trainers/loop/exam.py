"""The exam: what the base model and the tuned policies write by themselves on instances that no phase saw.

The questions are the same for every policy of a run, and for every run of the same task and settings: held-out
instances with starting programs of their own, and of each some edit sites. The base model answers once, each tuned
policy after its phase, under the same seeds, so that what `trainers.data.comparison` makes of two sets of answers is
paired by question and clustered by instance. Nothing that is written here enters an island or a pair, and no pair may
have one of the questions (`Exam.prompts`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

from atlas_gym.agents.engines.engine import Engine
from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.agents.proposals import Showing, Style
from atlas_gym.evaluation import Pool
from atlas_gym.seeding import stream, torch_seed
from atlas_gym.trainers.data.comparison import Comparison, compare
from atlas_gym.trainers.data.measures import Answer, thinned
from atlas_gym.trainers.data.rollouts import ProgramCache, again, fresh_samples
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.loop.tasks import Tasks, parent_of
from atlas_gym.trainers.store.plain import SettingsError
from atlas_gym.trainers.store.store import RunStore

BASE = 0
"""Phase under which the base model's answers are stored."""
_KEPT = [field.name for field in fields(Answer)]


def learned(exams: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, Comparison]]:
    """By phase, the policy after it against the base model; empty without an exam."""
    base = exams.get(BASE)
    return {
        phase: compare(_groups(base), _groups(tuned), [answer["instance"] for answer in base["answers"]])
        for phase, tuned in exams.items()
        if base is not None and phase != BASE
    }


def _groups(result: Mapping[str, Any]) -> list[list[Answer]]:
    return [[Answer(**sample) for sample in answer["samples"]] for answer in result["answers"]]


class Exam:
    """The questions, and the policies' answers to them; in the store nothing of this is looked up."""

    def __init__(self, config: RunConfig, tasks: Tasks, styles: Sequence[Style], pool: Pool, store: RunStore):
        self._settings, self._start, self._agent = config.exam, config.start, config.agent
        self._styles = styles
        self._posed = [
            (instance, tasks.unseen(instance, seed))
            for instance in config.exam.instances
            for seed in range(config.exam.seeds)
        ]
        self._notes = tasks.observed
        self._cache = ProgramCache(pool, [task for _, task in self._posed], store)

    @cached_property
    def questions(self) -> list[Proposal]:
        """One proposal a question; `island` is the number of the instance. `SettingsError` if a start fails."""
        found: list[Proposal] = []
        for number, (own, task) in enumerate(self._posed):
            rng = stream(0, "measure", number)  # not by the run's seed: runs are to be comparable
            start = own.start or self._start
            program = task.starts[start]
            evaluation = self._cache.evaluate(program, number)
            if not evaluation.ok:
                raise SettingsError(
                    f"exam.instances: the start `{start}` fails on {dict(own.env_args)}: {evaluation.status}: "
                    f"{evaluation.detail}"
                )
            parent = parent_of(program, evaluation.score)
            sites = [(style, site) for style in self._styles for site in style.sites(program)]
            showing = Showing(notes=self._notes(task), score=parent.score if self._agent.scores else None)
            for style, site in thinned(sites, self._settings.prompts, rng):
                found.append(again(style.propose(parent, site, showing), number, parent))
        return found

    @property
    def prompts(self) -> set[str]:
        """What no phase may be tuned on."""
        return {question.prompt for question in self.questions}

    def answers(self, generator: Engine) -> dict[str, Any]:
        """What a policy writes, as plain values: per question its instance, its site and its samples."""
        found: list[dict[str, Any]] = []
        seeds = [torch_seed(0, "measure", index) for index in range(len(self.questions))]
        groups = fresh_samples(generator, self._cache, self.questions, self._settings.samples, seeds)
        for question, group in zip(self.questions, groups, strict=True):
            samples = [{name: getattr(record, name) for name in _KEPT} for record in group]
            found.append({"instance": question.island, "site": question.site, "samples": samples})
        return {"answers": found}
