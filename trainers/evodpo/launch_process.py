"""One process of a phase that `launch` sent out: `accelerate launch -m trainers.evodpo.launch_process FOLDER`.

Every process loads the model and the adapters and does its share; the first one writes the result.
"""

import json
import os
import sys
from pathlib import Path

import torch
from accelerate import PartialState

from agents.models.policy import POLICY, REFERENCE, Policy
from trainers.evodpo.candidate_set import tune_here
from trainers.evodpo.launch import WorkOrder, write_result
from trainers.evodpo.training import StepRecord
from trainers.store.plain import build


def main(folder: Path) -> None:
    """Do the job in `folder`."""
    order = build(WorkOrder, json.loads((folder / "job.json").read_text(encoding="utf-8")))
    state = PartialState(cpu=order.device == "cpu")
    torch.set_num_threads(max(1, order.threads // state.num_processes))
    policy = Policy.load(
        order.model, dtype=getattr(torch, order.dtype), lora=order.lora, device=str(state.device)
    )
    policy.restore(POLICY, folder / "start" / "policy")
    policy.restore(REFERENCE, folder / "start" / "reference")

    def stop_if_nobody_waits(step: StepRecord) -> None:
        if not _lives(order.process):
            raise SystemExit("the run that asked for this phase has ended")

    tuned = tune_here(policy, order.task, stop_if_nobody_waits)
    if state.is_main_process:
        write_result(folder, policy, tuned)
    state.wait_for_everyone()
    state.destroy_process_group()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is somebody else's, but there
        return True
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]))
