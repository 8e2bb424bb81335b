"""Checks on programs as text."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.envs.episode import code_block
from atlas_gym.program_text import program_in, program_key, syntax_error

PROGRAM = """
import numpy as np

def policy(context, history, t):
    scores = context @ np.ones(5)
    return int(np.argmax(scores))
"""


@pytest.mark.parametrize(
    "source",
    [
        PROGRAM,
        "policy = lambda *a: 0",
        "from somewhere import something as policy",
        "class policy: pass",
        "try:\n    import fast\nexcept ImportError:\n    def policy(): pass",
        "if True:\n    policy = 1",
        "for policy in (1, 2): pass",
    ],
)
def test_programs_that_define_the_function(source):
    assert syntax_error(source, "policy") is None


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def policy(:", "line 1: invalid syntax"),
        ("x = 1\n  y = 2", "line 2: unexpected indent"),
        ("x = 1", "it does not define policy"),
        ("def outer():\n    def policy(): pass", "it does not define policy"),
        ("class A:\n    policy = 1", "it does not define policy"),
        ("print(policy)", "it does not define policy"),
        ("", "it does not define policy"),
        ("x = '\0'", "null"),
        ("x = '\ud800'", "surrogates"),
        ("(" * 1000 + ")" * 1000, "nested"),
        ("-" * 60_000 + "1", "nested too deeply"),
        ("x = 1\n" * 20_000, "120000 characters; 65536 are parsed"),
    ],
)
def test_what_is_no_program_is_told_why(source, reason):
    assert reason in syntax_error(source, "policy")


@pytest.mark.parametrize(
    "same",
    [
        PROGRAM + "\n# a comment\n",
        PROGRAM.replace("    scores", '    """A docstring."""\n    scores'),
        PROGRAM.replace("context, history, t", "context: list, history, t: int").replace("):", ") -> int:"),
        PROGRAM.replace("scores = context", "scores: np.ndarray = context"),
        PROGRAM.replace("    ", "\t"),
        PROGRAM.replace("context @ np.ones(5)", "(context\n        @ np.ones(5))"),
    ],
)
def test_key_ignores_what_does_not_change_behaviour(same):
    assert program_key(same) == program_key(PROGRAM)


@pytest.mark.parametrize(
    "other",
    [
        PROGRAM.replace("5", "6"),
        PROGRAM.replace("5", "5.0"),
        PROGRAM.replace("argmax", "argmin"),
        PROGRAM.replace("scores", "values"),
        PROGRAM + "\nx = 1",
        PROGRAM.replace("history, t", "history, t=0"),
        PROGRAM.replace("@", "*"),
    ],
)
def test_key_tells_programs_apart(other):
    assert program_key(other) != program_key(PROGRAM)


@pytest.mark.parametrize("source", ["def f(", "\0", "'\ud800'", "-" * 60_000 + "1", "x = 1\n" * 20_000])
def test_what_does_not_parse_has_no_key(source):
    assert program_key(source) is None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", ["x = 1\n", "a < ", "f'{x}'\n", "(", "lambda: ", "not "])
def test_endless_text_takes_no_endless_time(part):
    assert program_key(part * 1_000_000) is None


@given(st.text(alphabet="abcdefgh()=+-:\n 0123456789'#", max_size=60))
def test_checks_accept_any_text(source):
    key = program_key(source)
    try:
        ast.parse(source)
    except SyntaxError:
        assert key is None
        assert syntax_error(source, "f") is not None
    else:
        assert len(key) == 64


DOCUMENTED = 'def f(x):\n    """Like this:\n\n    ```\n    f(1)\n    ```\n    """\n    return x\n'


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("In a ```python block:\n\n```python\nx = 1\n```\n", "x = 1\n"),
        ("```python``` it is:\n```python\nx = 1\n```\nWith ```x``` in it.", "x = 1\n"),
        (f"```python\n{DOCUMENTED}```\nDone.", DOCUMENTED),
        (f"````python\n{PROGRAM}# ```\n```\n````", f"{PROGRAM}# ```\n```\n"),
        ("```python\nx = 1\n`````  \n```python\nx = 2", "x = 1\n"),
        ("   ```python\r\nx = 1\r\n  ```\r\n", "x = 1\r\n"),
        ("```python\nx = 1\n```python\n", "x = 1\n"),
        ("```python\ndef f(x):\n    return x```", "def f(x):\n    return x"),
        ("Sure, ```python\nx = 1\n```\nDone.", "x = 1\n"),
        (DOCUMENTED, DOCUMENTED),
    ],
)
def test_only_lines_of_their_own_are_fences(answer, program):
    assert program_in(answer) == program


@pytest.mark.parametrize("program", ["x = 1", DOCUMENTED, "s = '''\n```\n````\n'''", "# ```python"])
def test_what_a_prompt_shows_is_found_in_an_answer_that_copies_it(program):
    assert program_in(f"Here:\n{code_block(program)}\nIt ```works```.") == f"{program.rstrip()}\n"
