"""EvoDPO in one file: search, preference pairs, DPO, and a gate that decides whether the reference moves.

    python -m atlas_gym.experiments.learners.evodpo --phases 3

Algorithm 1 of the ATLAS paper without islands, supporters and a store, to be copied and changed; the loop that a study
runs is `trainers/loop`. A phase k:

    explore      the policy rewrites lines of the best programs; every completion is scored by the environment
    pairs        completions of one prompt, the better one chosen: D_k
    tune         DPO on D_k against the reference π_ref; the policy after each epoch is a candidate: C_k
    gate         Eq. 3: K̂L to the reference, on completions of D_k, nats per token
                 Eq. 4: π_kl = the candidate of the highest Ŝ − β_ref·K̂L, Ŝ the mean score of fresh completions
                 Eq. 5: π_kl becomes the reference iff Ŝ(π_kl) − Ŝ(π_ref) ≥ ε_s and K̂L(π_kl) ≤ δ_H

Policy and reference are two sets of LoRA weights on one model.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer

from atlas_gym import make_task
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.arguments import Parser
from atlas_gym.bridges.trl import ProgramReward


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run."""

    env_id: str = "ATLAS-Bandit-v0"
    """What is to be programmed."""
    env_args: dict[str, Any] = field(default_factory=dict)
    """The environment's own keywords."""
    model: str = "embedded"
    """A folder, a name, or the embedded model."""
    phases: int = 2
    """Phases of exploration and tuning."""
    rounds: int = 4
    """Prompts of each exploration."""
    samples: int = 8
    """Completions of each prompt."""
    parents: int = 4
    """Best programs that are rewritten."""
    tokens: int = 16
    """Longest completion."""
    temperature: float = 0.9
    """Of the sampling."""
    pairs: int = 8
    """Preference pairs of a phase, at most."""
    epochs: int = 2
    """Passes over them, and candidates in C_k."""
    learning_rate: float = 2e-4
    """AdamW's."""
    beta: float = 0.1
    """DPO's β."""
    min_gain: float = 0.0
    """ε_s, units of the score."""
    max_kl: float = 0.5
    """δ_H, nats per token."""
    kl_penalty: float = 0.0
    """β_ref, score units per nat."""
    seed: int = 0
    """Of everything."""


@dataclass(frozen=True)
class Pair:
    """A preference: two completions of one prompt."""

    prompt: str
    tail: str
    chosen: str
    rejected: str


@dataclass(frozen=True)
class Phase:
    """What a phase came to."""

    best: float
    """Best score so far."""
    pairs: int
    """Size of D_k."""
    losses: tuple[float, ...]
    """Mean loss of each epoch."""
    gain: float
    """Ŝ(π_kl) − Ŝ(π_ref)."""
    kl: float
    """K̂L(π_kl), nats per token."""
    promoted: bool
    """Whether the reference moved."""


class EvoDPO:
    """The state of a run: the model, the best programs, the reference."""

    def __init__(self, settings: Settings):
        self.settings = settings
        torch.manual_seed(settings.seed)
        self.rng = random.Random(settings.seed)
        folder = str(resolve_model(settings.model))
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.model = get_peft_model(base, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
        self.reference = self.weights()
        self.reward = ProgramReward(settings.env_id, **settings.env_args)
        start = make_task(settings.env_id, **settings.env_args).starts["named"]
        self.population = {start: self.reward([start])[0]}

    def run(self) -> list[Phase]:
        """Every phase, in order."""
        try:
            return [self.phase() for _ in range(self.settings.phases)]
        finally:
            self.reward.close()

    def phase(self) -> Phase:
        """Explore, form pairs, tune, gate."""
        data = self.pairs(self.explore())
        candidates, losses = self.tune(data)
        prompts = list({pair.prompt: pair for pair in data}.values())
        ours = self.score(prompts, self.reference)
        found = [(self.score(prompts, weights), self.kl(data, weights), weights) for weights in candidates]
        # Eq. 4, then Eq. 5
        score, kl, weights = max(found, key=lambda c: c[0] - self.settings.kl_penalty * c[1])
        promoted = bool(data) and score - ours >= self.settings.min_gain and kl <= self.settings.max_kl
        if promoted:
            self.reference = weights
        self.load(weights)
        return Phase(max(self.population.values()), len(data), losses, score - ours, kl, promoted)

    def explore(self) -> list[tuple[str, str, list[str], list[float]]]:
        """(prompt, rest of the program, completions, scores) of every round; new programs join the population."""
        found = []
        for _ in range(self.settings.rounds):
            ranked = sorted(self.population, key=lambda program: -self.population[program])
            prompt, tail = self.rng.choice(sites(self.rng.choice(ranked[: self.settings.parents])))
            completions = self.complete(prompt)
            programs = [prompt + text + tail for text in completions]
            scores = self.reward(programs)
            self.population |= dict(zip(programs, scores, strict=True))
            found.append((prompt, tail, completions, scores))
        return found

    def pairs(self, rounds: list[tuple[str, str, list[str], list[float]]]) -> list[Pair]:
        """D_k: of each prompt the best completions against the worst, as long as they differ in score."""
        found = []
        for prompt, tail, completions, scores in rounds:
            order = sorted(range(len(scores)), key=lambda i: -scores[i])
            for high, low in zip(order[: len(order) // 2], reversed(order), strict=False):
                if scores[high] > scores[low] and completions[high] and completions[low]:
                    found.append(Pair(prompt, tail, completions[high], completions[low]))
        self.rng.shuffle(found)
        return found[: self.settings.pairs]

    def tune(self, data: list[Pair]) -> tuple[list[dict], tuple[float, ...]]:
        """DPO from where the policy is; C_k, a candidate an epoch, and the losses."""
        policy = self.weights()
        anchors = [self.margin(pair, self.reference) for pair in data]
        self.load(policy)
        optimiser = torch.optim.AdamW(
            [p for p in self.model.parameters() if p.requires_grad], self.settings.learning_rate
        )
        candidates, losses = [], []
        for _ in range(self.settings.epochs):
            total = 0.0
            for pair, anchor in zip(data, anchors, strict=True):
                loss = -F.logsigmoid(self.settings.beta * (self.margin(pair) - anchor))
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                total += loss.item()
            candidates.append(self.weights())
            losses.append(total / max(1, len(data)))
        return candidates, tuple(losses)

    def margin(self, pair: Pair, weights: dict | None = None) -> torch.Tensor:
        """log π(chosen) − log π(rejected); of other weights than the policy's without gradients."""
        if weights is not None:
            self.load(weights)
        with torch.set_grad_enabled(weights is None):
            chosen, rejected = (
                self.log_probabilities(pair.prompt, text) for text in (pair.chosen, pair.rejected)
            )
            return chosen[1].sum() - rejected[1].sum()

    def score(self, prompts: list[Pair], weights: dict) -> float:
        """Ŝ: mean score of fresh completions, the same random numbers for all weights."""
        self.load(weights)
        with torch.random.fork_rng():
            torch.manual_seed(self.settings.seed)
            programs = [p.prompt + text + p.tail for p in prompts for text in self.complete(p.prompt)]
        return sum(self.reward(programs)) / len(programs) if programs else 0.0

    def kl(self, data: list[Pair], weights: dict) -> float:
        """K̂L (Eq. 3): mean divergence from the reference at the tokens of the chosen completions, nats."""
        with torch.no_grad():
            ours: list[torch.Tensor] = []
            theirs: list[torch.Tensor] = []
            for found, of in ((ours, weights), (theirs, self.reference)):
                self.load(of)
                found += [self.log_probabilities(pair.prompt, pair.chosen)[0] for pair in data]
        divergences = [(p.exp() * (p - q)).sum(-1) for p, q in zip(ours, theirs, strict=True)]
        return torch.cat(divergences).mean().item() if divergences else 0.0

    def log_probabilities(self, prompt: str, text: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Of every token at every place of the completion, (tokens, vocabulary), and of those that stand there."""
        head, body = (self.tokenizer(t, add_special_tokens=False).input_ids for t in (prompt, text + "\n"))
        logits = self.model(torch.tensor([head + body])).logits[0, len(head) - 1 : -1]
        every = logits.log_softmax(-1)
        return every, every.gather(1, torch.tensor(body)[:, None])[:, 0]

    def complete(self, prompt: str) -> list[str]:
        """Samples of the rest of the prompt's last line."""
        tokens = self.tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
        with torch.no_grad():
            drawn = self.model.generate(
                **tokens, do_sample=True, temperature=self.settings.temperature, top_k=0,
                pad_token_id=self.tokenizer.eos_token_id, num_return_sequences=self.settings.samples,
                max_new_tokens=self.settings.tokens,
            )  # fmt: skip
        texts = self.tokenizer.batch_decode(drawn[:, tokens.input_ids.shape[1] :], skip_special_tokens=True)
        return [text.split("\n")[0] for text in texts]

    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of the LoRA weights as they are."""
        return {
            name: tensor.detach().clone() for name, tensor in get_peft_model_state_dict(self.model).items()
        }

    def load(self, weights: dict[str, torch.Tensor]) -> None:
        """Make these the model's LoRA weights."""
        set_peft_model_state_dict(self.model, weights)


def sites(program: str) -> list[tuple[str, str]]:
    """Where a model can write: what stands before the right side of every assignment, and what stands behind it."""
    lines, found = program.split("\n"), []
    for i, line in enumerate(lines):
        left, equals, _ = line.partition(" = ")
        if equals and left.strip().isidentifier():
            found.append(("\n".join([*lines[:i], f"{left} ="]), "\n" + "\n".join(lines[i + 1 :])))
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run and print every phase and the best program."""
    parser = Parser(prog="python -m atlas_gym.experiments.learners.evodpo", description=__doc__)
    for name in ("phases", "rounds", "samples", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Settings, name))
    parser.add_argument("--model", default=Settings.model)
    run = EvoDPO(Settings(**vars(parser.parse_args(arguments))))
    for number, found in enumerate(run.run(), start=1):
        print(f"phase {number}: {found}")
    print(max(run.population, key=lambda program: run.population[program]))


if __name__ == "__main__":
    main()
