"""New lines: where they may go, and what they make of the parent."""

import ast

import pytest
from hypothesis import given

from atlas_gym.agents.proposals import InsertLine, Showing
from atlas_gym.agents.proposals.completing import completion_of, opening_of
from atlas_gym.agents.proposals.source import Source
from atlas_gym.program_text import program_key
from tests.agents.proposals.programs import ORDINARY, any_program, candidate

STYLE = InsertLine("policy")


def proposal_at(label, program=ORDINARY):
    (site,) = [site for site in STYLE.sites(program) if site.label == label]
    return STYLE.propose(candidate(program), site, Showing())


def test_sites_follow_the_simple_statements_of_the_body_and_of_its_loops():
    assert [site.label for site in STYLE.sites(ORDINARY)] == [
        'after """Choose = an arm, return 3."""', "after K, d =", "after window =", "after lam =", "after total =",
        "after total +=", "after scores =",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (" return 0", []),
        (" x = 1; y = 2", []),
        ("\n    x=1;y=2\n    return x", [2]),
        ("\n    x = (1 +\n2)\n    return x", [3]),
        ("\n    x = 1 \\\n\n    return x", []),
        ("\n    s = '''a\nb = 1'''\n    return s", [3]),
        ("\n    for i in c: x = i\n    return x", []),
        ("\n    while c:\n        c -= 1\n        break\n    return c", [3]),
        ("\n    if c:\n        x = 1\n    return c", []),
        ("\n    def inner(a):\n        b = a\n        return b\n    x = inner(c)\n    return x", [5]),
        ("\n\tx = c\n\tfor i in c:\n\t\tx += i\n\treturn x", [2, 4]),
    ],
)  # fmt: skip
def test_odd_layouts(body, lines):
    program = f"def policy(c, h, t):{body}\n"
    assert [program.count("\n", 0, site.start) + 1 for site in STYLE.sites(program)] == lines
    decorated = f"import math\n@math.no\n{program}"
    assert [decorated.count("\n", 0, site.start) - 1 for site in STYLE.sites(decorated)] == lines


@given(any_program)
def test_a_new_line_is_one_more_statement_at_its_site(program):
    source = Source.by_lines(program, "policy")
    for site in STYLE.sites(program):
        proposal = STYLE.propose(candidate(program), site, Showing())
        below = program.count("\n", 0, site.start) + 1
        (block, place) = _block(source.function, below)
        first = source.lines[block[0].lineno - 1]
        indentation = first[: len(first) - len(first.lstrip())]
        lines = list(source.lines)
        lines.insert(below, f"{indentation}new_name = 1")
        child = "\n".join(lines) + "\n"
        expected = Source.of(program, "policy")
        block, _ = _block(expected.function, below)
        block.insert(place, ast.parse("new_name = 1").body[0])
        assert ast.dump(ast.parse(child)) == ast.dump(expected.tree)
        completion = completion_of(proposal, child)
        assert proposal.assemble(completion) == child
        assert proposal.prompt.endswith(f"\n{indentation[:-1] or indentation}")
        opening = opening_of(proposal, program)
        assert opening.start == opening.end
        assert opening.holds(program, child)
        assert not opening.holds(program, child.replace("new_name = 1", f"new_name = 1\n{indentation}x = 2"))
        assert not opening.holds(program, program)


def _block(function, line):
    """The statements of the block with a simple statement that ends on this line, and the place behind it."""
    found = [
        (node.body, place)
        for node in ast.walk(function)
        if isinstance(node, ast.FunctionDef | ast.For | ast.While)
        for place, statement in enumerate(node.body, start=1)
        if statement.end_lineno == line and not hasattr(statement, "body")
    ]
    return found[-1]


@pytest.mark.parametrize(
    "text", ["", " \n", " # a comment\n", " window = 50\n", " lam = 1.0\n    junk = 1\n", "lam = 1.0"]
)
def test_nothing_a_comment_and_a_neighbour_make_the_parent(text):
    made = proposal_at("after window =").assemble(text)
    assert program_key(made) == program_key(ORDINARY)


def test_what_is_new_is_kept_word_for_word():
    made = proposal_at("after window =").assemble(" window = 51\n    junk = 1\n")
    assert made == ORDINARY.replace("    window = 50\n", "    window = 50\n    window = 51\n")


def test_a_prompt_shows_the_versions_and_what_the_line_should_not_begin_with():
    proposal = proposal_at("after window =")
    assert "# policy_v2 adds one line to policy_v1\ndef policy_v2(context, history, t):\n" in proposal.prompt
    assert proposal.prompt.endswith("    window = 50\n   ")  # tokens begin with the last space
    assert (proposal.avoid, proposal.stop) == (" lam", "new line")
    assert proposal_at("after scores =").avoid == " return"
    assert proposal_at("after total +=").avoid is None  # the loop ends there


def test_comments_and_blank_lines_are_no_next_word():
    program = "def policy(c, h, t):\n\tx = 1\n\n\t# then\n\ty = x\n\treturn y\n"
    proposal = proposal_at("after x =", program)
    assert proposal.avoid == "y"
    assert proposal.prompt.endswith("x = 1\n\t")
    assert proposal.assemble("x = 2\n") == program.replace("x = 1\n", "x = 1\n\tx = 2\n")


def test_changes_of_other_lines_are_no_completion():
    proposal = proposal_at("after window =")
    assert completion_of(proposal, ORDINARY) is None
    assert completion_of(proposal, ORDINARY.replace("50", "51")) is None
    assert completion_of(proposal, ORDINARY.replace("50\n", "50\n    a = 1\n    b = 1\n")) is None
    assert completion_of(proposal, ORDINARY.replace("50\n", "50\n    a = '#'  # c\n")) == " a = '#'\n"
