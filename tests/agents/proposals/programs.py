"""Programs to rewrite: ordinary ones, oddly formatted ones, and broken ones; and a task of theirs."""

from hypothesis import strategies as st

from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.tasks.program_task import ProgramTask

ORDINARY = '''import numpy as np


def policy(context, history, t):
    """Choose = an arm, return 3."""
    K, d = context.shape
    window = 50
    lam = 1.0
    total = 0.0
    for x, arm, reward in history[-window:]:
        total += reward * lam
    scores = context @ np.ones(d) + np.sum(context, axis=1)
    return int(np.argmax(scores))
'''

ODD = [
    "import math\ndef policy(c, h, t): return 0\n",
    "def policy(c,\n           h, t=3,):\n    x=1;y=2\n    if c: z = 3\n    return(x)\n",
    "def policy(c, h, t):\n\tx = (1 +\n\t\t2)\n\ty = x # = 5\n\treturn y\n",
    "def policy(c, h, t):\n    s = '''a = 1\n    return 2\n'''\n    return len(s)\n",
    "def policy(c, h, t):\n    x = 1 + \\\n        2\n    return x\n",
    "def policy(c, h, t):\n    é = 'ü = 1'; ß = 2\n    ñ = 7  # ñ = 8\n    return ñ\n",
    "def policy(c, h, t):\n    def inner(a=1):\n        b = a\n        return b\n    return inner()\nL = 3\n",
    "def policy(c, h, t):\n    x: int = 4\n    x -= 1\n    for i in(1, 2):\n        x = y = i\n    return\n",
    "@staticmethod\ndef policy(c, h, t):\n    return 1\n\ndef policy(c, h, t):\n\n\n    return 2\n",
    "def policy(c, h, t):\n    '''only text'''\n",
    "def policy(c, h, t):\n    x = f'{t = } {3:>4}'\n    w = lambda q=2: q == 2\n    return w(x == 5)\n",
    "class policy:\n    x = 1\n",
    "policy = lambda c, h, t: 0\n",
    "async def policy(c, h, t):\n    x = 1\n",
    "def policy(c, h, t):\n    for i in range(3): x = i\n    while True: return 0\n",
    "def policy(c, h, t):\n    x = 0x10\n    y = 1_000.5e-3\n    z = 3j\n    return x[0][1:2], y, z\n",
]

BROKEN = [
    "", "\n", "def policy(", "x = 1", "def policy(c):\r\n    x = 1\r\n", "\0", "def policy(c):\n  x = 1", "\f",
]  # fmt: skip


class Arms(ProgramTask):
    """Choose arms."""

    start = "import numpy as np\n\n\ndef policy(context, history, t):\n    return 0\n"


ARMS = Arms()

PREAMBLES = st.sampled_from(["", "import numpy as np\n\n\n", "# hello\nimport math\n", '"""Text."""\n\n'])
EXPRESSIONS = st.sampled_from(
    [
        "1",
        "0.5",
        "a + 1",
        "(a)",
        "'x = 2'",
        "history[-50:]",
        "[i for i in (1, 2)]",
        "a == b",
        "{'k': 1}",
        "f(a=3)",
    ]
)
COMMENTS = st.sampled_from(["", "  # c", " # x = 1", "#"])
SPACES = st.sampled_from(["", " ", "  "])


@st.composite
def lines(draw):
    """One statement, with its own taste in white space."""
    target = draw(st.sampled_from(["a", "b[0]", "a, b", "x: float", "c.d", "a = b"]))
    sign = draw(st.sampled_from(["=", "+="])) if target in ("a", "b[0]", "c.d") else "="
    space, other, value, comment = draw(SPACES), draw(SPACES), draw(EXPRESSIONS), draw(COMMENTS)
    shapes = [f"{target}{space}{sign}{other}{value}", f"return {value}", f"for i in {value}:{other}pass"]
    return draw(st.sampled_from([*shapes, "pass", "'text = 1'", "if a: b = 1"])) + comment


@st.composite
def programs(draw):
    """A program that parses, more or less pretty."""
    indent = draw(st.sampled_from(["    ", "  ", "\t"]))
    body = "".join(
        f"{indent}{line}\n" + draw(st.sampled_from(["", "\n"]))
        for line in draw(st.lists(lines(), min_size=1))
    )
    after = draw(st.sampled_from(["", "\nEND = 1\n", "\n\ndef other():\n    return 5\n"]))
    return f"{draw(PREAMBLES)}def policy(context, history, t):\n{body}{after}"


any_program = st.one_of(programs(), st.sampled_from([ORDINARY, *ODD]))


@st.composite
def damaged(draw):
    """A program with a few characters removed, doubled or replaced."""
    text = draw(any_program)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        put = draw(st.sampled_from(["", "\n", "(", "'", '"""', "\\", ":", "=", " ", "é", "\r"]))
        text = text[:at] + put + text[at + 1 :]
    return text


def candidate(program, id_=7, score=-0.5):
    """A seed record of a program."""
    return Candidate(
        id=id_, round=0, island=0, origin="seed", style="", site="", parent_id=None, prompt="", completion="",
        program=program, program_key=None, status="ok", score=score,
    )  # fmt: skip
