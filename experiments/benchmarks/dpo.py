"""One DPO phase of 64 same-prompt pairs with the embedded model: packed against stock TRL, side by side.

    OMP_NUM_THREADS=1 python -m atlas_gym.experiments.benchmarks.dpo
    OMP_NUM_THREADS=1 python -m atlas_gym.experiments.benchmarks.dpo --prompts 64 --sites 8 --batch-size 16

Every contender runs in a process of its own, one after the other, on the same pairs in the same batches
from the same weights, and reports the seconds of the phase (reference included, loading excluded), wall clock
and CPU (which is what counts where other programs are running), the peak of its resident memory (everything
included), its losses and its adapter. Contenders:

- packed: this package's trainer, one sequence per prompt;
- stock: TRL's `DPOTrainer` on the same tokens with its own collation and loss, same settings;
- stock-checkpointed: the same with activation checkpointing, which is TRL's default and trades time for
memory.

The model's weights are bfloat16, in which sequences of other shapes round differently. That both trainings are
the same one is therefore shown by a few pairs in float32: every step's loss and the adapter.

The prompts are those of the line-edit style on variants of the bandit's initial program; the completions
are lines of the same programs and broken ones, so lengths are those of a real run and no model has to be
asked.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file
from trl import DPOConfig, DPOTrainer

from atlas_gym import make_task
from atlas_gym.agents.models.adapters import WEIGHTS
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.agents.models.policy import POLICY, REFERENCE, Policy
from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.agents.proposals.edit_line import EditLine
from atlas_gym.agents.proposals.style import Showing
from atlas_gym.arguments import Parser
from atlas_gym.experiments.benchmarks.side_by_side import in_own_process, show
from atlas_gym.trainers.data.pairs import PreferencePair
from atlas_gym.trainers.dpo.kl import Divergence
from atlas_gym.trainers.dpo.phase import gate_subset
from atlas_gym.trainers.dpo.settings import PhaseSettings
from atlas_gym.trainers.dpo.train import TrainJob, train
from atlas_gym.trainers.dpo.trainer import PackedDPOTrainer
from atlas_gym.trainers.loop.tasks import parent_of

CONTENDERS = ("packed", "stock", "stock-checkpointed")
GATE_PROMPTS = 4
"""Prompts of the gate subset of Eq. 3."""


def main() -> None:
    """Run every contender in turn and print the ratios; with `--contender`, be one."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=16, help="distinct prompts")
    parser.add_argument("--pairs", type=int, default=4, help="pairs per prompt, at most 4")
    parser.add_argument("--sites", type=int, default=1, help="prompts of one parent, for as many edit sites")
    parser.add_argument("--batch-size", type=int, default=4, help="pairs per optimiser step")
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument(
        "--without", nargs="*", default=[], choices=CONTENDERS[1:], help="contenders to leave out"
    )
    parser.add_argument(
        "--same-prompts", type=int, default=2, help="prompts of the comparison in float32; 0 leaves it out"
    )
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--adapter", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contender:
        print(json.dumps(contend(arguments)))
        return
    with tempfile.TemporaryDirectory() as folder:
        figures = {
            name: spawn(name, Path(folder) / name) for name in CONTENDERS if name not in arguments.without
        }
        report(figures, Path(folder))
        if arguments.same_prompts:
            same = ["--dtype", "float32", "--prompts", str(arguments.same_prompts)]
            exact = {name: spawn(name, Path(folder) / name, same) for name in CONTENDERS[:2]}
            print_differences(exact, "stock", Path(folder))


def spawn(contender: str, adapter: Path, also: Sequence[str] = ()) -> dict[str, Any]:
    """Run one contender in a fresh process with this process's arguments and those of `also`."""
    print(" ".join([contender, *also[1::2][:1], "…"]), end=" ", flush=True)
    figures = in_own_process(
        "atlas_gym.experiments.benchmarks.dpo", contender, also=[*also, "--adapter", str(adapter)]
    )
    print(f"{figures['seconds']:.1f} s, {figures['cpu']:.1f} CPU s, {figures['memory']:.2f} GB", flush=True)
    return figures


def contend(arguments: argparse.Namespace) -> dict[str, Any]:
    """Be one contender: run the phase, save the adapter, return the figures."""
    torch.set_num_threads(1)
    policy = Policy.load(resolve_model(arguments.model), dtype=getattr(torch, arguments.dtype))
    pairs = make_pairs(arguments.prompts, arguments.pairs, arguments.sites)
    settings = PhaseSettings(
        activation_checkpointing=arguments.contender == "stock-checkpointed",
        batch_size=arguments.batch_size,
        epochs=1,
        target_kl=0.0,
        max_tokens=4096,
    )
    items = gate_subset(
        [(pair.prompt, pair.chosen) for pair in pairs], GATE_PROMPTS, np.random.default_rng(0)
    )
    cpu = time.process_time()
    trained = train(
        policy,
        TrainJob(tuple(pairs), settings, 1, tuple(items), phase=1, seed=0),
        trainer_class=PackedDPOTrainer if arguments.contender == "packed" else StockDPOTrainer,
    )
    figures = {
        "seconds": trained.seconds["train"],
        "cpu": time.process_time() - cpu,
        # Linux reports kilobytes.
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "tokens": trained.tokens,
        "losses": [record.loss for record in trained.steps],
    }
    policy.save(POLICY, arguments.adapter)
    if arguments.contender == "packed":
        start = time.perf_counter()
        Divergence(policy, REFERENCE, items, packed=False).of(list(trained.kls))
        final = trained.kls[POLICY]
        figures["kl"] = {
            "packed": trained.seconds["kl"],
            "unpacked": time.perf_counter() - start,
            "items": len(items),
            "value": final.mean,
            "error": final.standard_error,
        }
    return figures


class StockDPOTrainer(DPOTrainer):
    """TRL's trainer as it is, on data that is tokenised already. Its reference is the policy as it is when the trainer
    is built."""

    def __init__(self, model: Any, *, args: DPOConfig, reference_adapter: str, **kwargs: Any) -> None:
        args.precompute_ref_log_probs = False
        super().__init__(model, args=args, **kwargs)

    def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        return dataset


def report(figures: dict[str, dict[str, Any]], folder: Path) -> None:
    """Print what the packed trainer takes of what the others take, how far their results are apart, and Eq. 3's
    share."""
    measured = pd.DataFrame(figures).loc[["seconds", "cpu", "memory", "tokens"]].astype(float)
    ratios = measured.rdiv(measured["packed"], axis=0).drop(columns="packed")
    show("packed, the other = 1", ratios.map("{:.3f}".format).T)
    for name in ratios:
        print_differences(figures, name, folder)
    packed, kl = figures["packed"], figures["packed"]["kl"]
    print(
        f"Eq. 3 of the checkpoints on {kl['items']} completions: {kl['packed']:.1f} s packed, "
        f"{kl['packed'] / packed['seconds']:.2f} of the phase; "
        f"{kl['unpacked']:.1f} s unpacked; final policy {kl['value']:.3f} ± {kl['error']:.3f} nats per token"
    )


def print_differences(figures: dict[str, dict[str, Any]], name: str, folder: Path) -> None:
    """How far the losses and the adapter of the packed training are from those of another."""
    losses = zip(figures["packed"]["losses"], figures[name]["losses"], strict=True)
    packed, other = (load_file(folder / contender / WEIGHTS) for contender in ("packed", name))
    learned = [key for key in packed if ".lora_B." in key]  # these began at zero
    apart = sum((packed[key] - other[key]).pow(2).sum().item() for key in learned) ** 0.5
    size = sum(other[key].pow(2).sum().item() for key in learned) ** 0.5
    print(
        f"    packed and {name}: losses differ by at most {max(abs(a - b) for a, b in losses):.1e}, "
        f"the adapters' B by {apart / size:.1e} of its norm"
    )


def make_pairs(prompts: int, pairs: int, sites: int = 1) -> list[PreferencePair]:
    """`pairs` pairs (at most 4, of eight completions) of each of `prompts` line-edit prompts, `sites` of them of
    one parent; always the same."""
    spec = make_task("ATLAS-Bandit-v0")
    rng = np.random.default_rng(0)
    style = EditLine(spec.function)
    made: list[PreferencePair] = []
    for number in range(prompts):
        if number % sites == 0:
            worse, parent = (variant(spec.starts["named"], int(rng.integers(5, 200))) for _ in range(2))
        places = style.sites(parent.program)
        site, ids = places[number % len(places)], (2 * pairs * number, 2 * pairs * number + 1)
        prompt = style.propose(parent, site, Showing(worse=worse)).prompt
        good, bad = _completions(parent.program, rng)
        made += [
            PreferencePair(prompt, good[i], bad[i], "failed", 1.0, *ids, site.label) for i in range(pairs)
        ]
    return made


def _completions(program: str, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Four right sides of the program's own lines with a new constant, and four with a bracket missing."""
    sides = [line.split(" = ", 1)[1] for line in program.splitlines() if " = " in line]
    drawn = [sides[i] for i in rng.permutation(len(sides))[:8]]
    good = [f" {side} + {rng.integers(2, 100)}\n" for side in drawn[:4]]
    return good, [f" ({side} * {rng.integers(2, 100)}\n" for side in drawn[4:]]


def variant(start: str, window: int) -> Candidate:
    """The starting program with another window, as an island would hold it."""
    return parent_of(start.replace("window = 50", f"window = {window}"), -0.16)


if __name__ == "__main__":
    main()
