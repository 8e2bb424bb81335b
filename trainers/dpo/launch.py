"""A training in several processes: the run's own process sends a job out and takes the result in.

The job is a folder: `job`, pickled, the policy's two adapters, and afterwards `result` and an adapter for each
checkpoint. `accelerate launch -m atlas_gym.trainers.dpo.launch FOLDER` does what is between. So nothing of
`torch.distributed` is in the run's process, and a phase whose processes died is an error like any other.
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
from atlas_gym.trainers.dpo.train import StepRecord, Trained, TrainJob, train

_TAIL = 3000
"""Characters of the processes' output that an error shows."""


class LaunchError(RuntimeError):
    """The processes of a phase failed; the message ends with what they said last."""


def train_in_processes(policy: Policy, job: TrainJob, folder: Path) -> Trained:
    """Do a job in `job.settings.processes` processes of their own, with a working folder in `folder`. Raises
    `LaunchError` if one fails, ValueError if the policy's model is in memory only."""
    if policy.folder is None:
        raise ValueError("the policy's model is in memory only; other processes need its folder")
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"phase-{job.phase:03d}-", dir=folder))
    base = {"folder": str(Path(policy.folder).resolve()), "dtype": policy.dtype, "lora": policy.lora}
    # All processes together have the run's threads; without the run, which waits for them, there is no use in going on.
    run = {"device": policy.device.type, "threads": torch.get_num_threads(), "process": os.getpid()}
    for name in (POLICY, REFERENCE):
        policy.save(name, work / "start" / name)
    (work / "job").write_bytes(pickle.dumps((base, run, job)))
    # "multi_gpu" is Accelerate's word for starting several processes; they use gloo where there is no GPU.
    command = [
        *safe_command("accelerate.commands.launch"),
        *("--multi_gpu", "--num_processes", str(job.settings.processes), "--num_machines", "1"),
        *("--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"),
        *safe_script("atlas_gym.trainers.dpo.launch", str(work.resolve())),
    ]
    environment = {**safe_environment(), "HF_HUB_OFFLINE": "1"}
    if policy.device.type == "cpu":
        environment["ACCELERATE_USE_CPU"] = "true"
    with (work / "log.txt").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
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
    trained: Trained = pickle.loads((work / "result").read_bytes())
    for name in trained.checkpoints:
        policy.add(name, copy_of=POLICY)
    for name in (*trained.checkpoints, POLICY):
        policy.restore(name, work / name)
    shutil.rmtree(work)
    return trained


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

    trained = train(policy, job, stop_if_nobody_waits)
    if state.is_main_process:
        for name in (*trained.checkpoints, POLICY):
            policy.save(name, folder / name)
        (folder / "result").write_bytes(pickle.dumps(trained))
    state.wait_for_everyone()
    state.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
