import pytest

from atlas_gym.agents.models.tokens import encode_completion, encode_continuation
from tests.tiny_model import byte_tokenizer, code_tokenizer

ABOVE = "def f(x):\n"


@pytest.mark.parametrize(
    ("begun", "text", "below"),
    [
        ("    y =", " x\n", "    return y\n"),
        ("    y =", " x \n", "    return y\n"),
        ("    y =", " [\n        x]\n", "        return y\n"),
        ("    for y in", " x:\n", "        z = y\n"),
        ("    for y in x:\n        if y:\n            return", " y\n", "        x = y\n"),
        ("    returned =", " x\n", "    return returned\n"),
        ("    return", " x\n", "z = 1\n"),
        ("   ", " y = x\n", "    return y\n"),
        ("    y =", " x", " + 1\n"),
        ("    y = x", "\n    return y\n", "z"),
    ],
)
def test_a_completion_has_the_tokens_that_the_program_has_there(begun, text, below):
    tokenizer = code_tokenizer()
    before = encode_continuation(tokenizer, ABOVE + begun)
    written = [*before, *encode_completion(tokenizer, ABOVE + begun, text)]
    assert encode_continuation(tokenizer, ABOVE + begun + text + below)[: len(written)] == written


def test_where_breaks_are_tokens_of_their_own_a_completion_ends_with_one():
    tokenizer = byte_tokenizer()
    assert encode_completion(tokenizer, "    y =", " x\n") == encode_continuation(tokenizer, " x\n")


def test_the_text_is_what_is_written():
    tokenizer = code_tokenizer()
    tokens = encode_completion(tokenizer, "    y =", " x\n")
    assert tokenizer.decode(tokens) == " x\n   "
