"""From counted work to hours, on two CPU cores or on an assumed GPU."""

from dataclasses import dataclass

from experiments.cli.rates import ASSUMED_GPU, EVALUATION_CPU_S, MAIN_JOB, gpus_for, parameters_of
from experiments.cli.workload import Asked, Workload
from trainers.loop.config import RunConfig

HOUR = 3600.0


@dataclass(frozen=True)
class Estimate:
    """What a run costs, seconds unless it says otherwise. None: not known for this model."""

    on_gpu: bool
    """Whether the model is thought to run on GPUs."""
    exploring: float | None
    """Generation while exploring; evaluation runs beside it."""
    evaluating_cpu: float
    """CPU time of all evaluations, those that are spared left out."""
    evaluating: float
    """Wall time of those, by the configured workers."""
    measuring: float | None
    """Generation for the gate's scores and the probes."""
    tuning: float | None
    """DPO and Eq. 3, all phases."""
    consulting: float
    """Waiting for supporters' servers."""
    gpus: int
    """GPUs of the run's own model."""
    server_gpus: int
    """GPUs of the supporters' servers, which are up for the whole run."""

    @property
    def wall(self) -> float | None:
        """The run from beginning to end."""
        if self.exploring is None or self.measuring is None or self.tuning is None:
            return None
        return max(self.exploring, self.evaluating) + self.measuring + self.tuning + self.consulting

    @property
    def gpu_hours(self) -> float | None:
        """Of the run's own GPUs and of the servers."""
        return None if self.wall is None else self.wall / HOUR * (self.gpus + self.server_gpus)


def estimate(config: RunConfig, work: Workload) -> Estimate:
    """What the work takes where the configuration puts it.

    A configuration that leaves the device open (`auto`) is taken to run on a CPU if its model is the embedded
    one, on a GPU otherwise.
    """
    on_gpu = config.device == "cuda" or (config.device == "auto" and config.model != "embedded")
    consulting = sum(role.written for role in work.consultations) / ASSUMED_GPU.stream
    served = {role.model for role in work.consultations if role.form == "llm"}
    evaluating_cpu = MAIN_JOB.evaluated * work.evaluations * EVALUATION_CPU_S.get(config.env, 1.0)
    tuning = _tuning(config, work, on_gpu)
    return Estimate(
        on_gpu=on_gpu,
        exploring=_generating(config, work.exploration, config.exploration.samples, on_gpu),
        evaluating_cpu=evaluating_cpu,
        evaluating=evaluating_cpu / config.workers,
        measuring=_generating(config, work.measuring, config.gate_samples, on_gpu),
        tuning=tuning,
        consulting=consulting,
        gpus=_own_gpus(config) if on_gpu else 0,
        server_gpus=sum(gpus_for(model) or 1 for model in served),
    )


def _own_gpus(config: RunConfig) -> int:
    served = int(config.backend.vllm.extra.get("tensor_parallel_size", 1))
    return max(served if config.backend.name == "vllm" else 1, config.launch.processes)


def _generating(config: RunConfig, asked: Asked, samples: int, on_gpu: bool) -> float | None:
    parameters = parameters_of(config.model)
    if not on_gpu:
        return (asked.read + asked.drawn) / MAIN_JOB.generated if config.model == "embedded" else None
    if parameters is None:
        return None
    # The islands of a group are decoded together, each sample a sequence of the batch.
    together = samples * max(1, config.exploration.islands // config.exploration.groups)
    step = max(
        2.0 * parameters / (ASSUMED_GPU.bandwidth * ASSUMED_GPU.used_bandwidth),
        ASSUMED_GPU.step(config.backend.name),
    )
    reading = asked.read * 2.0 * parameters / (ASSUMED_GPU.flops * ASSUMED_GPU.used_flops)
    return asked.drawn / together * step + reading


def _tuning(config: RunConfig, work: Workload, on_gpu: bool) -> float | None:
    if not on_gpu:
        if config.model != "embedded":
            return None
        return work.trained / MAIN_JOB.trained + work.compared / MAIN_JOB.compared
    parameters = parameters_of(config.model)
    if parameters is None:
        return None
    # Forwards and backwards through frozen weights: two and two operations per weight and token, two for the
    # reference; processes share the batch.
    operations = (6.0 * work.trained / config.launch.processes + 2.0 * work.compared) * parameters
    return operations / (ASSUMED_GPU.flops * ASSUMED_GPU.used_flops)
