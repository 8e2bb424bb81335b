"""Answers of chat models: the right program from well-meant ones, some text and no harm from all others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.engines.answers import LONGEST_ANSWER, MOST_EDITS, patched, program_of
from atlas_gym.agents.population.candidate import Proposal

PARENT = "def f(x):\n    a = 1\n    b = 2\n    return a + b\n"
NEW = "def f(x):\n    return 3\n"


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


@pytest.mark.parametrize(
    "answer",
    [
        NEW,
        f"Here it is:\n```python\n{NEW}```\nIt is better.",
        f"```python\nold\n```\nbetter:\n```python\n{NEW}```",
        f"<think>```python\nno\n``` maybe</think>\n```python\n{NEW}```",
        json.dumps({"program": NEW}),
        json.dumps({"program": f"```python\n{NEW}```"}),
        json.dumps({"program": NEW.replace("\n", "\r\n")}),
        f"```json\n{json.dumps({'program': NEW})}\n```",
        f"```python\n{NEW}```".replace("\n", "\r\n"),
    ],
)
def test_whole_program_is_found(answer):
    assert program_of(answer) == NEW
    assert patched(PARENT, answer) == NEW  # asked for blocks, a model may still write all of it


@pytest.mark.parametrize("tag", ["<think>", "</think>"])
@pytest.mark.parametrize("before", ["", "<think>```\nno\n``` maybe</think>\n", "```\nno </think>\n"])
def test_tags_in_code_end_no_reasoning(before, tag):
    program = f"def f(x):\n    return x.split('{tag}')[-1]\n"
    assert program_of(f"{before}```python\n{program}```\n") == program
    assert program_of(f"{before}```json\n{json.dumps({'program': program})}\n```\n") == program
    assert program_of(json.dumps({"program": program})) == program


def test_a_field_that_is_the_program_keeps_the_fences_in_its_texts():
    program = 'def f(x):\n    return """\n```\nf(1)\n```\n"""\n'
    assert program_of(json.dumps({"program": program})) == program


@pytest.mark.parametrize(
    ("answer", "changed"),
    [
        (block("    a = 1", "    a = 7"), {1: "    a = 7"}),
        (block("a = 1", "a = 7"), {1: "    a = 7"}),
        (block("    a = 1  ", "    a = 7"), {1: "    a = 7"}),
        (f"First,\n```\n{block('    a = 1', '    a = 7')}```\nthen\n{block('    b = 2', '    b = a')}",
         {1: "    a = 7", 2: "    b = a"}),
        (block("    a = 1", "    a = 7") + block("    a = 7", "    a = 8"), {1: "    a = 8"}),
        (block("    a = 1", "    a = 7").replace("\n", "\r\n"), {1: "    a = 7"}),
        (json.dumps({"edits": [{"search": "    a = 1", "replace": "    a = 7"}]}), {1: "    a = 7"}),
        (json.dumps({"edits": [{"search": "    a = 1\r\n    b = 2\r\n", "replace": "    a = 7\r\n    b = a\r\n"}]}),
         {1: "    a = 7", 2: "    b = a"}),
    ],
)  # fmt: skip
def test_edits_are_made_in_their_order(answer, changed):
    lines = [changed.get(number, line) for number, line in enumerate(PARENT.split("\n"))]
    assert patched(PARENT, answer) == "\n".join(lines)


def test_an_empty_replacement_deletes_the_lines():
    answer = "<<<<<<< SEARCH\n    b = 2\n=======\n>>>>>>> REPLACE"
    assert patched(PARENT, answer) == PARENT.replace("    b = 2\n", "")


def test_both_parts_of_a_block_may_hold_the_line_that_divides_them():
    text, other = "TEXT = '''Arms\n=======\n'''", "TEXT = '''Bandits\n=======\n'''"
    parent = f"{text}\nHELP = 1\n"
    assert patched(parent, block(text, other)) == parent.replace(text, other)
    assert patched(parent, block("HELP = 1", other)) == parent.replace("HELP = 1", other)


def test_a_loosely_matched_edit_leaves_other_lines_as_they_are():
    parent = 'TEXT = """a  \nb"""\ndef f(x):\n    y = x \n    return y  \n'
    found = patched(parent, block("y = x", "y = 2\nz = 3"))
    assert found == parent.replace("    y = x \n", "    y = 2\n    z = 3\n")


def test_the_last_line_of_a_parent_need_not_end():
    assert patched(PARENT.rstrip(), block("    return a + b", "    return a")) == PARENT.replace(" + b", "")
    assert patched(PARENT.rstrip(), block("    a = 1", "    a = 7")) == PARENT.replace("1", "7")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (block("    c = 3", "x"), "edit 1 searches for does not stand"),
        (
            block("    a = 1", "    a = 7") + block("    a = 1", "    a = 8"),
            "edit 2 searches for does not stand",
        ),
        (block("a", "x"), "does not stand"),  # part of a line only
        (block("", "x"), "searches for nothing"),
        (block("  \n", "x"), "searches for nothing"),
        ("<<<<<<< SEARCH\n    a = 1\n=======\n    a = 7", "does not end"),
        ("<<<<<<< SEARCH\n    a = 1\n>>>>>>> REPLACE", "no line ======="),
        ("<<<<<<< SEARCH\n<<<<<<< SEARCH\n", "within another"),
        (json.dumps({"edits": [{"search": 3, "replace": "x"}]}), "needs the texts"),
        (json.dumps({"edits": ["x"]}), "needs the texts"),
        (block("    a = 1", "    a = 1") * (MOST_EDITS + 1), f"{MOST_EDITS} are made"),
        ("x" * (LONGEST_ANSWER + 1), f"{LONGEST_ANSWER} are read"),
    ],
)
def test_an_unusable_answer_says_why_and_is_no_program(answer, reason):
    program = patched(PARENT, answer)
    assert program.startswith("# ")
    assert reason in program
    assert program.count("\n") == 1


def test_what_stands_twice_is_not_guessed():
    assert "more than once" in patched("a = 1\nb = 2\na = 1\n", block("a = 1", "a = 3"))


_LINE = st.text(st.characters(codec="ascii", exclude_characters="\r\n"), max_size=6)
_LINES = st.lists(_LINE, min_size=1, max_size=12)


@given(lines=_LINES, new=_LINES, data=st.data())
def test_a_block_replaces_just_what_it_shows(lines, new, data):
    """Against the definition on lists of lines: the one place where the lines stand is replaced."""
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first + 1, len(lines)))
    wanted = lines[first:last]
    places = [i for i in range(len(lines)) if lines[i : i + len(wanted)] == wanted]
    answer = json.dumps({"edits": [{"search": "\n".join(wanted), "replace": "\n".join(new)}]})
    found = patched("\n".join(lines) + "\n", answer)
    replaced = "\n".join([*lines[:first], *new, *lines[last:]]) + "\n"
    edges_kept = all("\n".join(part).strip("\n") == "\n".join(part) for part in (wanted, new))
    if "\n".join(wanted).strip() and edges_kept and "\n".join(new):
        assert found == replaced if len(places) == 1 else "more than once" in found


@given(st.text(), st.text())
def test_any_answer_gives_some_text(parent, answer):
    assert isinstance(patched(parent, answer), str)
    assert program_of(answer).endswith("\n")


@given(st.lists(st.sampled_from(["<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "a = 1", "", "{", "```"])))
def test_any_order_of_marks_gives_some_text(lines):
    assert isinstance(patched("a = 1\n", "\n".join(lines)), str)


@pytest.mark.parametrize(
    "answer", ["<" * 200_000, "{" * 200_000, '{"edits":' * 20_000, "```\n" * 60_000, "[" * 200_000]
)
def test_bombs_are_only_text(answer):
    assert isinstance(patched(PARENT, answer), str)
    assert isinstance(program_of(answer), str)


def test_what_json_writes_and_no_store_takes_is_replaced():
    """A lone surrogate, which has no form in UTF-8; of a pair of them Python's reader makes a character."""
    assert program_of('{"program": "x = \'\\ud800 \\ud83d\\ude00\'"}') == "x = '? \U0001f600'\n"
    edit = '{"edits": [{"search": "    a = 1", "replace": "    a = \'\\udfff\'"}]}'
    assert patched(PARENT, edit) == PARENT.replace("1", "'?'", 1)


def test_proposals_assemble_answers():
    assert Proposal("p", stop="program").assemble(f"```python\n{NEW}```") == NEW
    assert Proposal("p", stop="diff", prefix=PARENT).assemble(
        block("    a = 1", "    a = 7")
    ) == PARENT.replace("1", "7")
