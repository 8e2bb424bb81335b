"""A phase in several processes: the run's own process sends a job out and takes the result in.

The job is a folder: `job` with everything that decides the outcome, pickled, the policy's two adapters, and afterwards
`result`, pickled too, and an adapter for each candidate. `accelerate launch -m atlas_gym.trainers.evodpo.launch FOLDER`
does what is between, in as many processes as it is told to start, with whatever Accelerate's configuration says about
devices and machines: each loads the model and the adapters and does its share, and the first one writes the result.
Fresh samples for the gate's Ŝ are drawn by the run itself, as ever. So nothing of `torch.distributed` is in the run's
process, and a phase whose processes died is an error like any other: the policy is as before, and the phase can be run
again.
"""

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import torch

from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.evaluation.safe_start import safe_command, safe_environment, safe_script
from atlas_gym.trainers.evodpo.candidate_set import Tune, Tuned, TuneJob, tune_here
from atlas_gym.trainers.evodpo.settings import LaunchSettings
from atlas_gym.trainers.evodpo.training import StepRecord

_TAIL = 3000
"""Characters of the processes' output that an error shows."""


class LaunchError(RuntimeError):
    """The processes of a phase failed; the message ends with what they said last."""


def launched(settings: LaunchSettings, folder: Path) -> Tune:
    """Someone who does jobs in processes of their own, with working folders in `folder`.

    Raises:
        LaunchError: the configuration for Accelerate is missing; better heard now than when the first phase begins.
    """
    if settings.config_file and not Path(settings.config_file).is_file():
        raise LaunchError(
            f"launch.config_file: there is no file {settings.config_file}; "
            f"`accelerate config --config_file {settings.config_file}` makes one"
        )

    def tune(policy: Policy, job: TuneJob) -> Tuned:
        folder.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f"phase-{job.phase:03d}-", dir=folder))
        _write_order(work, policy, job)
        _launch(settings, work, policy.device.type)
        tuned: Tuned = pickle.loads((work / "result").read_bytes())
        for name in tuned.training.checkpoints:
            policy.add(name, copy_of=POLICY)
        for name in (*tuned.training.checkpoints, POLICY):
            policy.restore(name, work / name)
        shutil.rmtree(work)
        return tuned

    return tune


def _write_order(work: Path, policy: Policy, job: TuneJob) -> None:
    if policy.folder is None:
        raise ValueError("the policy's model is in memory only; other processes need its folder")
    base = {"folder": str(Path(policy.folder).resolve()), "dtype": policy.dtype, "lora": policy.lora}
    # All processes together have the run's threads; without the run, which waits for them, there is no use in going on.
    run = {"device": policy.device.type, "threads": torch.get_num_threads(), "process": os.getpid()}
    for name in (POLICY, REFERENCE):
        policy.save(name, work / "start" / name)
    (work / "job").write_bytes(pickle.dumps((base, run, job)))


def _launch(settings: LaunchSettings, work: Path, device: str) -> None:
    """Start the processes and wait for them; whatever ends the wait ends them too."""
    environment = {**safe_environment(), "HF_HUB_OFFLINE": "1"}
    if device == "cpu":
        environment["ACCELERATE_USE_CPU"] = "true"
    with (work / "log.txt").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            _command(settings, work), stdout=log, stderr=subprocess.STDOUT, env=environment
        )
        try:
            code = process.wait()
        finally:
            process.terminate()  # an interrupt: the launcher passes it on
            process.wait()
    if code != 0:
        said = (work / "log.txt").read_text(encoding="utf-8", errors="replace")[-_TAIL:]
        raise LaunchError(
            f"the processes of the phase failed (exit code {code}); see {work / 'log.txt'}:\n{said}"
        )


def _command(settings: LaunchSettings, work: Path) -> list[str]:
    command = safe_command("accelerate.commands.launch")
    if settings.config_file:
        command += ["--config_file", settings.config_file]
    else:
        # "multi_gpu" is Accelerate's word for starting several processes; they use gloo where there is no GPU.
        command += ["--multi_gpu", "--num_processes", str(settings.processes), "--num_machines", "1"]
        command += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    return [*command, *safe_script("atlas_gym.trainers.evodpo.launch", str(work.resolve()))]


def main(folder: Path) -> None:
    """One of the processes: do the job in `folder`."""
    from accelerate import PartialState  # the run's own process needs none of it

    base, run, job = pickle.loads((folder / "job").read_bytes())
    state = PartialState(cpu=run["device"] == "cpu")
    torch.set_num_threads(max(1, run["threads"] // state.num_processes))
    policy = Policy.load(**base, device=str(state.device))
    for name in (POLICY, REFERENCE):
        policy.restore(name, folder / "start" / name)

    def stop_if_nobody_waits(step: StepRecord) -> None:
        if not psutil.pid_exists(run["process"]):
            raise SystemExit("the run that asked for this phase has ended")

    tuned = tune_here(policy, job, stop_if_nobody_waits)
    if state.is_main_process:
        for name in (*tuned.training.checkpoints, POLICY):
            policy.save(name, folder / name)
        (folder / "result").write_bytes(pickle.dumps(tuned))
    state.wait_for_everyone()
    state.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
