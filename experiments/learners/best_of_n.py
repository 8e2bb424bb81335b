"""Best of n: a language model rewrites a line of the best program so far, n times; the best result stays.

    python -m atlas_gym.experiments.learners.best_of_n --rounds 4 --samples 16

No weights change. It is what any learner that does change them has to beat at equal numbers of evaluations. One file,
to be copied and changed: the model is any of transformers', the scores are the environment's (`ProgramReward`).
"""

import random
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from atlas_gym import make_task
from atlas_gym.agents.models.loading import resolve_model
from atlas_gym.arguments import Parser
from atlas_gym.bridges.trl import ProgramReward


@dataclass(frozen=True)
class Settings:
    """Everything that decides a search."""

    env_id: str = "ATLAS-Bandit-v0"
    """What is to be programmed."""
    env_args: dict[str, Any] = field(default_factory=dict)
    """The environment's own keywords."""
    model: str = "embedded"
    """A folder, a name, or the embedded model."""
    rounds: int = 4
    """Lines that are rewritten, one after the other."""
    samples: int = 16
    """Completions of each."""
    tokens: int = 16
    """Longest completion."""
    temperature: float = 0.9
    """Of the sampling."""
    seed: int = 0
    """Of everything."""


def main(arguments: list[str] | None = None) -> None:
    """Search and print the best program."""
    parser = Parser(prog="python -m atlas_gym.experiments.learners.best_of_n", description=__doc__)
    for name in ("rounds", "samples", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Settings, name))
    parser.add_argument("--model", default=Settings.model)
    settings = Settings(**vars(parser.parse_args(arguments)))
    program, score = best_of_n(settings)
    print(f"{program}\n\nbest score {score:.4f}")


def best_of_n(settings: Settings) -> tuple[str, float]:
    """The best program found, and its score."""
    folder = str(resolve_model(settings.model))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rng = random.Random(settings.seed)
    torch.manual_seed(settings.seed)
    best = make_task(settings.env_id, **settings.env_args).starts["named"]
    reward = ProgramReward(settings.env_id, **settings.env_args)
    try:
        (score,) = reward([best])
        for round_ in range(settings.rounds):
            head, tail = rng.choice(sites(best))
            programs = [head + line + tail for line in complete(model, tokenizer, head, settings)]
            scores = reward(programs)
            top = max(range(len(scores)), key=scores.__getitem__)
            if scores[top] > score:
                best, score = programs[top], scores[top]
            print(f"round {round_ + 1}: best of its {len(scores)} {scores[top]:.4f}, best so far {score:.4f}")
    finally:
        reward.close()
    return best, score


def sites(program: str) -> list[tuple[str, str]]:
    """Where a model can write: what stands before the right side of every assignment, and what stands behind it."""
    lines, found = program.split("\n"), []
    for i, line in enumerate(lines):
        left, equals, _ = line.partition(" = ")
        if equals and left.strip().isidentifier():
            found.append(("\n".join([*lines[:i], f"{left} ="]), "\n" + "\n".join(lines[i + 1 :])))
    return found


def complete(model: Any, tokenizer: Any, prompt: str, settings: Settings) -> list[str]:
    """Samples of the rest of the prompt's last line."""
    tokens = tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        drawn = model.generate(
            **tokens, do_sample=True, temperature=settings.temperature, top_k=0, pad_token_id=tokenizer.eos_token_id,
            num_return_sequences=settings.samples, max_new_tokens=settings.tokens,
        )  # fmt: skip
    texts = tokenizer.batch_decode(drawn[:, tokens.input_ids.shape[1] :], skip_special_tokens=True)
    return [text.split("\n")[0] for text in texts]


if __name__ == "__main__":
    main()
