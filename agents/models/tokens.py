"""What a sampler has to know about each token of a vocabulary, looked up once."""

from typing import Any

import torch


class Vocabulary:
    """Masks over the token ids of one tokenizer, each a bool tensor of shape (size,)."""

    def __init__(self, tokenizer: Any, size: int) -> None:
        """``size`` is the width of the model's logits, which may exceed the tokenizer's vocabulary."""
        count = min(size, len(tokenizer))
        self._texts = tokenizer.batch_decode([[token] for token in range(count)])
        self._padding = size - count
        self._banned: dict[str, torch.Tensor] = {}
        ends = [token == tokenizer.eos_token_id for token in range(count)]
        self.end = self._mask(ends, beyond=False)  # the token that ends a text
        breaks = ["\n" in text or end for text, end in zip(self._texts, ends, strict=True)]
        self.line_end = self._mask(breaks, beyond=False)
        """Tokens that contain a line break, and the one that ends a text."""

    def banned(self, text: str) -> torch.Tensor:
        """Tokens that contain ``text`` (none if it is empty), and ids that the tokenizer cannot decode."""
        if text not in self._banned:
            contained = [bool(text) and text in token for token in self._texts]
            self._banned[text] = self._mask(contained, beyond=True)
        return self._banned[text]

    def _mask(self, chosen: list[bool], *, beyond: bool) -> torch.Tensor:
        return torch.tensor(chosen + [beyond] * self._padding, dtype=torch.bool)


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


def encode_completion(tokenizer: Any, prompt: str, text: str) -> list[int]:
    """Token ids of a prompt's completion, as a model writes them.

    Many tokenizers join a line break with the indentation behind it, so that a model ends a line with the token that
    begins the next one. The break alone is another token, which it hardly ever writes there. What is trained to be
    likelier or less likely has to be what is written, so a line's last token is the one with the indentation.
    """
    # Cut off; or the rest of a function, with nothing indented behind it.
    if not text.endswith("\n") or text.startswith("\n"):
        return encode_continuation(tokenizer, text)
    line = (prompt + text.rstrip()).rpartition("\n")[2]
    following = line[: len(line) - len(line.lstrip())]  # how far the next line is indented, as a rule
    if line.endswith(":"):
        following += "    "
    elif line.split()[:1] == ["return"]:
        following = following.removesuffix("    ")
    # Tokens of code begin with a space, so the last one of the indentation belongs to the next line's first token.
    tokens = encode_continuation(tokenizer, text + following[:-1])
    while "\n" not in tokenizer.decode(tokens[-1:]):
        tokens.pop()
    return tokens
