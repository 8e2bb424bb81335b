"""From replies as models write them to validated objects; nothing but ReplyError for anything else."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.supporters.exploration import ExplorationReply
from atlas_gym.agents.supporters.inspector import InspectionReply
from atlas_gym.agents.supporters.messages import Reply, ReplyError, parse_reply
from atlas_gym.agents.supporters.strategist import StrategyReply


class Answer(Reply):
    """A small schema."""

    word: str
    number: float | None = None


GOOD = '{"word": "yes", "number": 2.5}'

WRAPPED = {
    "bare": GOOD,
    "fence": f"```json\n{GOOD}\n```",
    "fence without a language": f"```\n{GOOD}\n```",
    "sentences around": f"Sure, here it is:\n{GOOD}\nHope that helps!",
    "reasoning": f'<think>Maybe {{"word": "no"}}?</think>{GOOD}',
    "reasoning in capitals": f'<THINK>Maybe {{"word": "no"}}?</THINK>\n{GOOD}',
    "reasoning without its start": f'Maybe {{"word": "no"}}?</think>\n{GOOD}',
    "two reasonings": f'<think>a</think> {{"word": "no"}} <thinking>b</thinking>{GOOD}',
    "an example first": f'Like {{"word": "example"}}. My answer: {GOOD}',
    "an example of another shape last": f'{GOOD} (the form was {{"x": 1}})',
    "braces in prose": f"The set {{a, b}} and f{{}}: {GOOD}",
    "more fields": '{"word": "yes", "number": 2.5, "extra": [1, {"a": 2}]}',
    "a dotted capital I in the reasoning": f"<think>İİİ</think>{GOOD}",
}


@pytest.mark.parametrize("name", WRAPPED)
def test_finds_the_object(name):
    assert parse_reply(WRAPPED[name], Answer) == Answer(word="yes", number=2.5)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no JSON object"),
        ("null", "no JSON object"),
        ('["word"]', "no JSON object"),
        ("<think>" + GOOD, "no JSON object"),
        ('{"word": "cut o', "no JSON object"),
        ('{"word": "a", "number": NaN}', "field 'number'"),
        ('{"word": "a", "number": 1e999}', "field 'number'"),
        ('{"word": "a", "number": ' + "9" * 5000 + "}", "no JSON object"),
        ('{"word": "a", "number": "2"}', "field 'number'"),
        ('{"word": "a", "number": true}', "field 'number'"),
        ('{"word": 1}', "field 'word'"),
        ("{}", "field 'word'"),
        ('{"x": ' * 2000, "no JSON object"),
    ],
)
def test_refuses(text, problem):
    with pytest.raises(ReplyError, match=problem):
        parse_reply(text, Answer)


@given(st.text())
def test_any_text_gives_an_answer_or_a_reply_error(text):
    for schema in (Answer, ExplorationReply, StrategyReply, InspectionReply):
        with contextlib.suppress(ReplyError):
            assert isinstance(parse_reply(text, schema), schema)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["word", "critique", "reason", "decision", "beta", "patches", "edits", "name", "value"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(_JSON)
def test_any_json_gives_an_answer_or_a_reply_error(value):
    for schema in (ExplorationReply, StrategyReply, InspectionReply):
        with contextlib.suppress(ReplyError):
            assert isinstance(parse_reply(json.dumps(value), schema), schema)


@given(
    st.text(max_size=200), st.text(max_size=200), st.text(alphabet=st.characters(codec="utf-8"), max_size=50)
)
def test_object_behind_reasoning_is_found_whatever_the_reasoning(reasoning, between, word):
    """The text between must not hold objects or tags of its own."""
    plain = between.replace("{", "(").replace("<", "(")
    text = f"<think>{reasoning}</think>{plain}" + json.dumps({"word": word.replace("<", "")})
    assert parse_reply(text, Answer).word == word.replace("<", "")


def test_errors_never_quote_the_reply():
    with pytest.raises(ReplyError) as error:
        parse_reply('{"word": {"SECRET": "SECRET"}, "SECRET": 1}', Answer)
    assert "SECRET" not in str(error.value)
