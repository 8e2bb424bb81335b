"""A run's whole configuration: a method's settings (`trainers.loop.methods`), and whatever is set on top of them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.agents.engines.settings import EngineSettings
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.agents.population.candidate import AGENT, SUPPORTER
from atlas_gym.agents.settings import AgentSettings
from atlas_gym.agents.supporters.settings import SupporterSettings
from atlas_gym.trainers.data.settings import GateScore, PairSettings
from atlas_gym.trainers.dpo.settings import GateSettings, PhaseSettings
from atlas_gym.trainers.loop.methods import METHODS
from atlas_gym.trainers.loop.settings import ExamSettings, ExplorationSettings, Instance
from atlas_gym.trainers.store.folder import write_anew
from atlas_gym.trainers.store.plain import build, differences, merge, plain, read_layers, require

_MOST = {"workers": 10_000, "torch_threads": 1_024, "held_out_seeds": 100_000}
"""Beyond these a machine only fails later. Held-out seeds from 100,000 on are the exam's."""
_MOST_CANDIDATES = 10**8
"""Of a run, far above the largest one shipped; ids must fit the store, and a slip of the finger is to be told."""
Control = Literal["frozen", "agent-alone", "supporter-alone", "numbers-alone", "expressions-alone", "unseen"]
Mode = Literal["auto", "online", "offline", "off"]
"""How a run is tracked with W&B, see `experiments.loggers.wandb`."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run."""

    env: str = "ATLAS-Bandit-v0"
    """Environment id, or where a task of your own is: `./file.py:Class`, `module:Class`, or a folder in OpenEvolve's
    form."""
    env_args: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment's task, for example `replicas: 5`."""
    observe: bool = False
    """Whether prompts say what random play observes of the task."""
    instances: tuple[Instance, ...] = ()
    """Instances of the task, dealt to the islands in turn: each island searches on its own. Empty: all islands share
    one."""
    start: str = "named"
    """Starting program: `named` (constants on lines of their own), `inlined` or `scratch`."""
    method: str = "atlas"
    """What learns, and how: `atlas`, `evodpo`, `evotune`, `search`, `best-of-n`, without a model
    `supporter-alone`, `numbers-alone` and `expressions-alone`, or ATLAS with one thing changed, such as `atlas-no-gate`
    (all in `trainers.loop.methods`)."""
    tuning: bool = True
    """Whether there are fine-tuning phases at all; without them the model is frozen."""
    controls: tuple[Control, ...] = ()
    """What the run is compared with when it has ended, in its folder (`trainers.loop.control`): `frozen`, the same run
    with tuning off; `agent-alone`, `supporter-alone`, `numbers-alone`, `expressions-alone`, one writer with as many
    evaluations; `unseen`, short searches by the agent alone, tuned and not, on the instances of the exam."""
    seed: int = 0
    """Seed of every random stream of the run."""
    model: str = "embedded"
    """The research agent's model: `embedded`, a Hugging Face id or a local folder."""
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    """What the model computes in; adapters are float32. `auto`: bfloat16 on a GPU and on a processor that has
    instructions for it, otherwise float32, which takes twice the memory and a fraction of the time of emulating the
    other."""
    adapter: str = ""
    """What another run has taught this model: a folder such as `runs/default/adapters/phase-002/default`. Policy and
    reference begin as this adapter says, tuned on or not, and the run keeps a copy. Empty: they begin as the model."""
    rounds: int = 24
    """Exploration rounds, at most."""
    evaluations: int = 0
    """Different programs that are executed, those for the phases included; smoke runs, measurements and confirmations
    are not counted. The round that spends the last is smaller, and none follows. 0: as many as the rounds ask for."""
    phase_every: int = 8
    """Rounds between two fine-tuning phases (paper: 20). No phase follows the last round."""
    max_phases: int = 0
    """Fine-tuning phases at most, after which the policy stays as it is and explores the rounds that are left. 0: any
    number."""
    skip_idle_phases: bool = True
    """Skip a phase if the best score has not improved since the last one (paper, B.4)."""
    evaluator: Literal["pool", "ray"] = "pool"
    """Where programs are evaluated: `pool` on this machine, `ray` on a cluster (extra `ray`): the one of the
    environment variable RAY_ADDRESS (`auto`: the one this machine belongs to), else one on this machine."""
    workers: int = 2
    """Evaluations at a time: processes of the pool, or actors of the cluster."""
    torch_threads: int = 2
    """Threads of generation and tuning."""
    held_out_seeds: int = 16
    """Held-out tasks that confirm the initial and the best program."""
    tracking: Mode = "auto"
    """W&B: `online`, `offline`, `off`, or `auto` (online for whoever is logged in to W&B, else offline)."""
    exploration: ExplorationSettings = ExplorationSettings()
    """Layout of a round."""
    agent: AgentSettings = field(default_factory=AgentSettings)
    """What the research agent asks for, and its islands."""
    sampling: Sampling = Sampling()
    """How tokens are drawn."""
    backend: EngineSettings = field(default_factory=EngineSettings)
    """The engine that draws them."""
    pairs: PairSettings = PairSettings()
    """How preference pairs are built."""
    phase: PhaseSettings = PhaseSettings()
    """A fine-tuning phase."""
    gate: GateSettings = GateSettings()
    """Eqs. 4 and 5, and what Ŝ and K̂L are measured on."""
    gate_score: GateScore = "gain"
    """What Ŝ counts: the mean `gain` over the parent, or the `likelihood` of answers that are known to improve, in
    nats: it sees a policy come nearer where no sample improves. Supporters that teach answer the gate's prompts as well
    then."""
    lora: LoraSettings = LoraSettings()
    """The adapters, and in what precision the base model below them is kept."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the policy's weights are; `auto`: on a GPU if torch finds one."""
    supporters: SupporterSettings = field(default_factory=SupporterSettings)
    """The three supporters: `off`, `rules` or `llm` for each."""
    teaching: bool = False
    """Whether the exploration supporter answers the agent's own prompts before each phase, so that pairs may choose its
    answers. They are evaluated like any program, and join the islands."""
    taught_per_prompt: int = 6
    """Answers of the supporter to each prompt of a phase, at most."""
    exam: ExamSettings = ExamSettings()
    """What shows whether the agent has learned: the same questions to the base model and after each phase."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, not {self.method!r}")
        at_least_1 = "rounds phase_every workers torch_threads held_out_seeds taught_per_prompt"
        require(self, {"at least 1": at_least_1, "at least 0": "max_phases evaluations"})
        for complaint in self._conflicts():
            raise ValueError(complaint)

    def _conflicts(self) -> Iterator[str]:
        """What is said of settings that cannot be had, or not together."""
        for name, most in _MOST.items():
            if getattr(self, name) > most:
                yield f"{name} must be at most {most}"
        layout = self.exploration
        if self.rounds * layout.islands * layout.samples * layout.draws > _MOST_CANDIDATES:
            yield (
                f"rounds × islands × samples × draws come to more than {_MOST_CANDIDATES} programs: lower rounds, "
                "exploration.islands, exploration.samples or exploration.draws"
            )
        if len(self.instances) > layout.islands:
            yield "there must be an island for each of the instances"
        if self.teaching and self.phases > 0 and self.supporters.exploration.form == "off":
            yield "nobody teaches while supporters.exploration.form is off: set it to rules or llm, or teaching: false"
        if "supporter-alone" in self.controls and self.supporters.exploration.form == "off":
            yield "controls: supporter-alone needs supporters.exploration.form: set it to rules or llm"
        if not self.writers:
            yield "supporters.exploration.form is off, and exploration.writers names nobody but the supporter"
        if self.adapter and not (self.needs_policy and self.backend.follows_policy):
            yield "an adapter needs the model's weights: leave adapter empty, or write with backend.name: transformers"
        if self.phases > 0 and not self.backend.follows_policy:
            yield "the model behind this endpoint cannot be tuned: set method: search (or tuning: false)"

    @property
    def messages(self) -> Mapping[str, float] | None:
        """Styles, by weight, if the model answers messages."""
        return self.backend.chat.styles if self.backend.name == "chat" else None

    @property
    def writers(self) -> dict[str, float]:
        """Who writes programs, by weight."""
        weights = dict(self.exploration.writers)
        if self.supporters.exploration.form == "off":
            weights.pop(SUPPORTER, None)
        return {name: weight for name, weight in weights.items() if weight > 0}

    @property
    def needs_policy(self) -> bool:
        """Whether the model's weights are needed in this process."""
        writes = AGENT in self.writers and (self.backend.name == "transformers" or self.adapter != "")
        return self.phases > 0 or writes

    @property
    def phases(self) -> int:
        """Number of fine-tuning phases that are planned."""
        between = (self.rounds - 1) // self.phase_every if self.tuning else 0
        return min(between, self.max_phases) if self.max_phases else between

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """First and last round of every block; phases fall between blocks."""
        ends = [*(self.phase_every * k for k in range(self.phases + 1)), self.rounds]
        return [(before + 1, end) for before, end in pairwise(ends)]

    @property
    def name(self) -> str:
        """A folder name that tells runs apart."""
        # A task may be named by a file or a module.
        task = re.sub(r"[^a-z0-9_]+", "-", self.env.removeprefix("ATLAS-").lower()).strip("-")
        return f"{task}-{self.method}-{self.start}-s{self.seed}"


def changes(begun: RunConfig, now: RunConfig) -> str:
    """In words, how `now` differs from `begun`, but for what models behind an API may cost; empty if it does not."""
    return differences(_without_budgets(begun), _without_budgets(now))


def refused_changes(begun: RunConfig, now: RunConfig) -> str:
    """Those changes that a run cannot go on with. Rounds may be added: what is stored is what a run of that many would
    have begun with."""
    longer = now.rounds > begun.rounds
    return changes(begun, replace(now, rounds=begun.rounds) if longer else now)


def _without_budgets(config: RunConfig) -> RunConfig:
    chat = replace(config.backend.chat, budget_tokens=0)
    return replace(config, backend=replace(config.backend, chat=chat))


def load_config(path: Path | None, overrides: Mapping[str, Any]) -> RunConfig:
    """A configuration from the method's settings, a file laid on them, and overrides on top.

    The file may be laid on another in turn (`read_layers`).

    Raises:
        SettingsError: the file is missing or not YAML, or a setting is unknown or unusable.
    """
    file = {} if path is None else read_layers(path, "the configuration")
    values = merge(for_method(file, overrides.get("method")), overrides)
    layout = overrides.get("exploration")
    islands = layout.get("islands") if isinstance(layout, Mapping) else None
    if (
        isinstance(islands, int)
        and "instances" not in overrides
        and isinstance(values.get("instances"), list)
    ):
        values["instances"] = values["instances"][: max(1, islands)]  # fewer islands have fewer instances
    method = values.get("method", RunConfig.method)
    known = METHODS.get(method, {}) if isinstance(method, str) else {}  # else `build` refuses it by name
    return build(RunConfig, merge(known, values))


def for_method(values: Mapping[str, Any], method: object) -> dict[str, Any]:
    """Settings of a file as another method takes them: who writes is the method's matter, if it says so."""
    layout, other = values.get("exploration"), method != values.get("method", RunConfig.method)
    own = METHODS.get(method, {}) if other and isinstance(method, str) else {}
    if "writers" in own.get("exploration", {}) and isinstance(layout, dict):
        return {**values, "exploration": {key: value for key, value in layout.items() if key != "writers"}}
    return dict(values)


def as_yaml(config: RunConfig) -> str:
    """The whole configuration, defaults included."""
    from atlas_gym import yaml_text

    return yaml_text.dump(plain(config))


def save_config(config: RunConfig, path: Path) -> None:
    """Write the whole configuration, defaults included, so that a later default cannot change a run."""
    write_anew(path, as_yaml(config))
