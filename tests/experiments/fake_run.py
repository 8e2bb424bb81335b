"""A program a sweep can run in a moment: writes a run store whose best score depends on its settings.

Called as the main job is (`--key=value` settings); like it, it finds its folder in the environment, continues what
is there, and ends with 130 when interrupted.
"""

import os
import sys
import time
from pathlib import Path

import yaml

from atlas_gym.agents.population.candidate import CandidateRecord
from atlas_gym.trainers.store.store import RunStore


def main() -> int:
    settings = {
        key: yaml.safe_load(value)
        for key, _, value in (word.removeprefix("--").partition("=") for word in sys.argv[1:])
    }
    folder = Path(os.environ["ATLAS_RUN_FOLDER"])
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "starts.txt").open("a") as starts:
        starts.write(f"{os.environ['WANDB_RUN_ID']} {os.environ['WANDB_RUN_GROUP']}\n")
    if settings.get("broken"):
        print("this configuration cannot work")
        return 1
    (folder / "config.yaml").write_text(yaml.safe_dump({"exploration": {"groups": 1}, **settings}))
    with RunStore(folder) as store:
        done = len(store.unit_summaries())
        for round_ in range(done, settings.get("rounds", 4) + 1):
            store.add_unit(round_, 0, [_candidate(round_, settings)], _summary(round_))
            time.sleep(settings.get("sleep", 0.0))
            if round_ == settings.get("bad_waits_after") and settings["beta"] > 1:
                time.sleep(120)  # to be stopped, however late anybody looks
    return 0


def _candidate(round_: int, settings: dict) -> CandidateRecord:
    score = -abs(float(settings.get("beta", 0.1)) - 0.3) - 1 / (1 + round_)
    return CandidateRecord(
        id=round_, round=round_, island=0, origin="agent", style="", hole="", parent_id=None, prompt="", completion="",
        program=f"x = {round_}", program_key=f"{round_}", status="ok", score=score,
    )  # fmt: skip


def _summary(round_: int) -> dict:
    return {"round": round_, "group": 0, "samples": 1, "valid": 1, "new": 1, "improving": 0, "distinct": 1, "tokens": 1,
            "statuses": {"ok": 1}, "generation_s": 0.0, "evaluation_wait_s": 0.0}  # fmt: skip


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("asked to stop")
