"""EvoDPO in one file: search, preference pairs, DPO, and a gate that decides whether the reference moves.

    python -m atlas_gym.experiments.learners.evodpo --phases 3

Algorithm 1 of the ATLAS paper without islands, supporters and a store. A phase k:

    explore      the policy rewrites lines of the best programs; every completion is scored by the environment
    pairs        completions of one prompt, the better one chosen: D_k
    tune         DPO (Eq. 2) on D_k against the reference π_ref; the policy after each epoch is a candidate: C_k
    gate         Eq. 3: K̂L to the reference, on chosen completions of D_k, nats per token
                 Eq. 4: π_kl = the candidate of the highest Ŝ − β_ref·K̂L, Ŝ the mean score of fresh completions
                 Eq. 5: π_kl becomes the reference iff Ŝ(π_kl) − Ŝ(π_ref) ≥ ε_s and K̂L(π_kl) ≤ δ_H

Policy and reference are two sets of LoRA weights on one model. Needs `pip install "atlas-gym[learn]"`.
"""

import argparse
import random
import re
from typing import Any

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer

from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.bridges.trl import ProgramReward
from atlas_gym.tasks.constants import constants_from

ROUNDS, SAMPLES, PARENTS = 4, 8, 4  # prompts of a phase, completions of each, programs that are rewritten
TOKENS, TEMPERATURE = 16, 0.9  # of a completion, at most; of the sampling
PAIRS, EPOCHS, LEARNING_RATE, BETA = 8, 2, 2e-4, 0.1  # size of D_k at most, size of C_k, AdamW's, DPO's β
MIN_GAIN, MAX_KL, KL_PENALTY = 0.0, 0.5, 0.0  # ε_s in score, δ_H in nats per token, β_ref in score per nat

Pair = tuple[str, str, str, str]  # prompt, rest of the program, chosen completion, rejected completion


def sites(program: str) -> list[tuple[str, str]]:
    """Of every assignment what stands before its right side, and what stands behind it."""
    return [(program[: m.end(1)], program[m.end() :]) for m in re.finditer(r"(?m)^( *\w+ =) .*$", program)]


class EvoDPO:
    """The state of a run: the model, the best programs with their scores, the reference."""

    def __init__(self, env_id: str, constants: dict[str, Any], model: str, seed: int):
        self.seed, self.rng = seed, random.Random(seed)
        torch.manual_seed(seed)
        folder = str(resolve_model(model))
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.model = get_peft_model(base, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
        self.reference = self.weights()
        self.reward = ProgramReward(env_id, **constants)
        start = self.reward.task.starts["named"]
        self.population = {start: self.reward([start])[0]}

    def phase(self) -> dict[str, Any]:
        """Explore, form pairs, tune, gate."""
        data = self.explore()
        candidates, losses = self.tune(data)
        ours = self.score(data, self.reference)
        found = [(self.score(data, weights), self.kl(data, weights), weights) for weights in candidates]
        score, kl, weights = max(found, key=lambda c: c[0] - KL_PENALTY * c[1])  # Eq. 4
        promoted = bool(data) and score - ours >= MIN_GAIN and kl <= MAX_KL  # Eq. 5
        if promoted:
            self.reference = weights
        set_peft_model_state_dict(self.model, weights)
        return {"pairs": len(data), "losses": losses, "gain": score - ours, "kl": kl, "promoted": promoted}

    def explore(self) -> list[Pair]:
        """D_k: of each prompt the best completions against the worst; new programs join the population."""
        data = []
        for _ in range(ROUNDS):
            ranked = sorted(self.population, key=lambda program: -self.population[program])
            prompt, tail = self.rng.choice(sites(self.rng.choice(ranked[:PARENTS])))
            texts = self.complete(prompt)
            programs = [prompt + text + tail for text in texts]
            scores = self.reward(programs)
            self.population |= dict(zip(programs, scores, strict=True))
            order = sorted(range(len(texts)), key=lambda i: -scores[i])
            for high, low in zip(order[: len(order) // 2], reversed(order), strict=False):
                if scores[high] > scores[low] and texts[high] and texts[low]:
                    data.append((prompt, tail, texts[high], texts[low]))
        self.rng.shuffle(data)
        return data[:PAIRS]

    def tune(self, data: list[Pair]) -> tuple[list[dict], list[float]]:
        """DPO from where the policy is: C_k, a candidate per epoch, and the mean losses."""
        policy = self.weights()
        set_peft_model_state_dict(self.model, self.reference)
        with torch.no_grad():
            anchors = [self.margin(pair) for pair in data]
        set_peft_model_state_dict(self.model, policy)
        optimiser = torch.optim.AdamW([p for p in self.model.parameters() if p.requires_grad], LEARNING_RATE)
        candidates, losses = [], []
        for _ in range(EPOCHS):
            losses.append(0.0)
            for pair, anchor in zip(data, anchors, strict=True):
                loss = -F.logsigmoid(BETA * (self.margin(pair) - anchor))
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                losses[-1] += loss.item() / len(data)
            candidates.append(self.weights())
        return candidates, losses

    def margin(self, pair: Pair) -> torch.Tensor:
        """log π(chosen) − log π(rejected)."""
        chosen, rejected = (self.log_probs(pair[0], text)[1].sum() for text in pair[2:])
        return chosen - rejected

    def score(self, data: list[Pair], weights: dict) -> float:
        """Ŝ: mean score of fresh completions of D_k's prompts, the same random numbers for all weights."""
        set_peft_model_state_dict(self.model, weights)
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            prompts = {prompt: tail for prompt, tail, *_ in data}
            programs = [head + text + tail for head, tail in prompts.items() for text in self.complete(head)]
        return sum(self.reward(programs)) / max(1, len(programs))

    @torch.no_grad()
    def kl(self, data: list[Pair], weights: dict) -> float:
        """K̂L (Eq. 3): mean divergence of these weights from the reference over chosen tokens, nats."""
        tables = []
        for of in (weights, self.reference):
            set_peft_model_state_dict(self.model, of)
            tables.append([self.log_probs(prompt, chosen)[0] for prompt, _, chosen, _ in data])
        divergences = [(p.exp() * (p - q)).sum(-1) for p, q in zip(*tables, strict=True)]
        return torch.cat(divergences).mean().item() if divergences else 0.0

    def log_probs(self, prompt: str, text: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Of all tokens at every place of the completion, (tokens, vocabulary), and of those that stand there."""
        head, body = (self.tokenizer(t, add_special_tokens=False).input_ids for t in (prompt, text + "\n"))
        table = self.model(torch.tensor([head + body])).logits[0, len(head) - 1 : -1].log_softmax(-1)
        return table, table.gather(1, torch.tensor(body)[:, None])[:, 0]

    @torch.no_grad()
    def complete(self, prompt: str) -> list[str]:
        """Samples of the rest of the prompt's last line."""
        tokens = self.tokenizer(prompt, return_tensors="pt", add_special_tokens=False)
        how = {"do_sample": True, "temperature": TEMPERATURE, "top_k": 0, "max_new_tokens": TOKENS}
        end = self.tokenizer.eos_token_id
        drawn = self.model.generate(**tokens, **how, num_return_sequences=SAMPLES, pad_token_id=end)
        texts = self.tokenizer.batch_decode(drawn[:, tokens.input_ids.shape[1] :], skip_special_tokens=True)
        return [text.split("\n")[0] for text in texts]

    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of the LoRA weights as they are."""
        return {name: t.detach().clone() for name, t in get_peft_model_state_dict(self.model).items()}


def main(arguments: list[str] | None = None) -> None:
    """Print every phase and the best program."""
    parser = argparse.ArgumentParser(prog="python -m atlas_gym.experiments.learners.evodpo")
    parser.add_argument("constants", nargs="*", metavar="NAME=VALUE", help="of the environment")
    parser.add_argument("--env-id", default="ATLAS-Bandit-v0")
    parser.add_argument("--model", default="embedded", help="a folder, a name, or the embedded model")
    parser.add_argument("--phases", type=int, default=2, help="of exploration and tuning (default 2)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    run = EvoDPO(options.env_id, constants_from(options.constants), options.model, options.seed)
    for number in range(options.phases):
        print(f"phase {number + 1}: {run.phase()}")
    run.reward.close()
    print(max(run.population, key=lambda program: run.population[program]))


if __name__ == "__main__":
    main()
