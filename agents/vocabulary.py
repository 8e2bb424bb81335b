"""What a sampler has to know about each token of a vocabulary, looked up once."""

from __future__ import annotations

from typing import Any

import torch


class Vocabulary:
    """Masks over the token ids of one tokenizer, each a bool tensor of shape (size,)."""

    def __init__(self, tokenizer: Any, size: int, *, banned_text: str = "", device: Any = "cpu") -> None:
        """``size`` is the width of the model's logits, which may exceed the tokenizer's vocabulary."""
        count = min(size, len(tokenizer))
        texts = tokenizer.batch_decode([[token] for token in range(count)])

        def mask(chosen: list[bool], beyond: bool) -> torch.Tensor:
            return torch.tensor(chosen + [beyond] * (size - count), dtype=torch.bool, device=device)

        self.unusable = mask([False] * count, beyond=True)
        """Ids the tokenizer cannot decode: padding of the embedding matrix."""
        self.banned_in_line = mask([bool(banned_text) and banned_text in text for text in texts], beyond=True)
        """Tokens that contain the banned text, and the unusable ones."""
        ends = [token == tokenizer.eos_token_id for token in range(count)]
        self.end = mask(ends, beyond=False)
        """The token that ends a text."""
        self.line_end = mask(
            ["\n" in text or end for text, end in zip(texts, ends, strict=True)], beyond=False
        )
        """Tokens that contain a line break, and the one that ends a text."""


def encode_prompt(tokenizer: Any, prompt: str) -> list[int]:
    """Token ids of a prompt, with the tokenizer's beginning-of-text token unless the text has it already.

    Training and generation must agree on this, so both call this function.
    """
    begin = tokenizer.bos_token
    special = not (begin and prompt.startswith(begin))
    return list(tokenizer(prompt, add_special_tokens=special)["input_ids"])


def encode_continuation(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a text that continues a prompt."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])
