"""What a run is compared with when it has ended: runs of their own, in its folder, resumed like any.

`frozen` is the same run with tuning off, by the same writers. Until the first phase that tunes both are the same step
by step: it takes those rounds over. The others (`agent-alone`, `supporter-alone`, `numbers-alone`,
`expressions-alone`) have one writer, nothing tuned, and as many evaluations as the run, its phases' included.

`unseen` is two short searches by the agent alone, with the last policy and with the base model, on the instances of
the exam, which no phase saw: what tuning adds.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace

from atlas_gym.agents.population.candidate import AGENT, WRITERS
from atlas_gym.trainers.loop.beginning import BEGIN
from atlas_gym.trainers.loop.config import RunConfig
from atlas_gym.trainers.store.store import RunStore

FOLDER = "controls"
"""Where they lie in the run's folder."""
FROZEN, UNSEEN_TUNED, UNSEEN_BASE = "frozen", "unseen-tuned", "unseen-base"
NAMES = (
    FROZEN, "agent-alone", "supporter-alone", "numbers-alone", "expressions-alone", UNSEEN_TUNED, UNSEEN_BASE,
)  # fmt: skip
_NOBODY = dict.fromkeys(WRITERS, 0.0)
_OTHER_TASKS = 1_000_003
"""Added to the run's seed for the searches on unseen instances: their tasks share no random number with the run's."""


def controls(config: RunConfig, run: RunStore) -> Iterator[tuple[str, RunConfig]]:
    """Name and configuration of everything that a run, which has ended, is to be compared with."""
    alone = replace(config, tuning=False, controls=(), exam=replace(config.exam, samples=0))
    layout, spent = config.exploration, run.candidate_counts()["evaluated"]
    for name in config.controls:
        if name == FROZEN and config.phases > 0:
            yield name, alone
        elif name.endswith("-alone") and spent:
            own = replace(layout, writers=_NOBODY | {name.removesuffix("-alone"): 1.0})
            rounds = 3 * -(-spent // (layout.islands * layout.samples))
            adapter = config.adapter if own.writers[AGENT] else ""  # the others need no model
            yield name, replace(alone, evaluations=spent, rounds=rounds, exploration=own, adapter=adapter)
    tuned = run.tuned_phases()
    if "unseen" in config.controls and tuned:
        instances = config.exam.instances * config.exam.seeds
        search = replace(
            alone, instances=instances, rounds=config.exam.rounds, evaluations=0, seed=config.seed + _OTHER_TASKS,
            exploration=replace(layout, islands=len(instances), writers=_NOBODY | {AGENT: 1.0}),
        )  # fmt: skip
        policy = run.phase_folder(tuned[-1]["phase"]) / "default"
        yield UNSEEN_TUNED, replace(search, adapter=str(policy))
        yield UNSEEN_BASE, search


def open_control(run: RunStore, name: str) -> RunStore:
    """The control's store; the frozen one's begun with what it shares with the run, whose rounds are all done. What the
    policy of an earlier phase found goes where a run that was made longer has tuned once more."""
    folder = run.folder / FOLDER / name
    store = RunStore(folder)
    if name == UNSEEN_TUNED and store.get_meta("begin") not in (
        None,
        run.tuned_phases()[-1]["policy_digest"],
    ):
        store.close()
        shutil.rmtree(folder)
        store = RunStore(folder)
    # Those that write with the model as the run began: where it got its adapter may be gone.
    if name in (FROZEN, f"{AGENT}-alone", UNSEEN_BASE) and (run.folder / BEGIN).exists():
        shutil.copytree(run.folder / BEGIN, folder / BEGIN, dirs_exist_ok=True)
    if name == FROZEN and store.round_summary(0) is None:
        tuned = (phase["round"] for phase in run.tuned_phases())
        store.begin_like(run, min(tuned, default=run.last_round()))
    return store
