"""The smallest run that has phases, as the command line begins and continues it."""

import subprocess
import sys
from pathlib import Path

from atlas_gym.trainers.store.store import RunStore, StoreError

SMALL = [
    "--config=plain",
    "--rounds=3", "--phase_every=2", "--exploration.islands=3", "--exploration.samples=6", "--pairs.count=8",
    "--gate.samples=2", "--held_out_seeds=2", "--tracking=off", "--torch_threads=1", "--pairs.builder=plain",
    "--skip_idle_phases=false",  # so small a run need not improve, and has phases even so
]  # fmt: skip
BANDIT = ["--env=ATLAS-Bandit-v0", "--env_args.replicas=2", "--env_args.horizon=300"]


def command(folder: Path, *settings: str, python: str | Path = sys.executable) -> list[str]:
    """What begins the run with these settings laid on `SMALL`, on a bandit if they name none, or continues it."""
    words = [str(python), "-m", "atlas_gym.experiments.run", "--folder", str(folder), "--resume-if-exists"]
    if (folder / "config.yaml").exists():
        return words
    env = [] if any(word.startswith("--env=") for word in settings) else BANDIT
    return [*words, *SMALL, *env, *settings]


def start(folder: Path, *settings: str) -> subprocess.Popen:
    """Begin or continue it; what it says goes to a file: a pipe that nobody reads would stop it once it is full."""
    with open(folder.with_suffix(".log"), "ab") as log:
        return subprocess.Popen(command(folder, *settings), stdout=log, stderr=subprocess.STDOUT)


def finish(process: subprocess.Popen, folder: Path) -> str:
    """What it has said by its end, which is a good one."""
    code, said = process.wait(timeout=600), folder.with_suffix(".log").read_text()
    assert code == 0, said
    return said


def stored_rounds(folder: Path) -> int:
    """Rounds in its store, the starting programs not counted; -1 if it has none yet."""
    try:
        with RunStore.open_readonly(folder) as store:
            return len(store.round_summaries()) - 1
    except StoreError:
        return -1


def contents(folder: Path) -> tuple:
    """What two equal runs have in common."""
    with RunStore.open_readonly(folder) as store:
        kept = ("policy_digest", "reference_digest", "decision", "skipped")
        phases = [[phase.get(key) for key in kept] for phase in store.phases()]
        pairs = [store.phase_pairs(phase["phase"]) for phase in store.phases()]
        return list(store.candidates()), pairs, phases
