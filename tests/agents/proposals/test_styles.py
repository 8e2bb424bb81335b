"""What holds for every style and every program."""

import ast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from atlas_gym.agents.proposals import Complete, EditLine, Expressions, Numbers, Rewrite, Showing
from atlas_gym.agents.proposals.completing import completion_of, site_of
from atlas_gym.agents.proposals.source import Source
from atlas_gym.program_text import program_key
from atlas_gym.seeding import stream
from atlas_gym.tasks.program_task import ProgramTask
from tests.agents.proposals.programs import ARMS, BROKEN, ODD, ORDINARY, any_program, candidate, damaged

EDITING = [EditLine("policy"), Complete("policy"), Numbers("policy"), Expressions("policy")]
STYLES = [*EDITING, Rewrite(ARMS)]


def line_of(program, site):
    """Index of the line that a site begins on."""
    return program.count("\n", 0, site.start)


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
@given(st.one_of(any_program, damaged(), st.sampled_from(BROKEN), st.text()))
def test_no_text_is_too_odd(style, program):
    for site in style.sites(program):
        proposal = style.propose(candidate(program), site, Showing())
        assert proposal.assemble("1").endswith("\n")
        assert not proposal.prompt.endswith("\n")


@pytest.mark.parametrize("style", EDITING, ids=lambda style: style.name)
@given(any_program)
def test_the_parents_own_text_reproduces_the_parent(style, program):
    for site in style.sites(program):
        proposal = style.propose(candidate(program), site, Showing())
        again = proposal.assemble(proposal.avoid)
        assert program_key(again) == program_key(program)
        line = line_of(program, site)
        if (
            style.name not in ("edit_line", "expressions")
            or line not in Source.of(program, "policy").comments
        ):
            assert [line.rstrip() for line in again.split("\n")] == [
                line.rstrip() for line in program.split("\n")
            ]


@given(any_program)
def test_line_sites_begin_right_after_the_sign_of_a_statement(program):
    source = Source.by_lines(program, "policy")
    assume(source is not None)
    text_lines = {
        line
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.end_lineno > node.lineno
        for line in range(node.lineno - 1, node.end_lineno)
    }
    for site in EditLine("policy").sites(program):
        line, before = line_of(program, site), program[: site.start].rpartition("\n")[2]
        assert before.endswith(("=", "return", "in"))
        assert source.first < line <= source.last
        assert line not in text_lines
        assert len(before) <= source.comments.get(line, len(before))
        changed = EditLine("policy").propose(candidate(program), site, Showing()).assemble(" other_name")
        if "in" not in before[-2:]:
            assert program_key(changed) not in (None, program_key(program))


@given(any_program)
def test_number_sites_are_numbers(program):
    style = Numbers("policy")
    for site in style.sites(program):
        proposal = style.propose(candidate(program), site, Showing())
        old = ast.literal_eval(proposal.avoid)
        for text in style.write(proposal, 5, stream(1, site.label)):
            new = ast.literal_eval(text)
            assert type(new) is type(old)
            assert new != old
            assert old == 0 or old / 4 - 1 <= new <= old * 4 + 1
            assert program_key(proposal.assemble(text)) not in (None, program_key(program))


def test_sites_of_an_ordinary_program():
    labels = [site.label for site in EditLine("policy").sites(ORDINARY)]
    assert labels == [
        "window =",
        "lam =",
        "total =",
        "for x, arm, reward in",
        "total +=",
        "scores =",
        "return",
    ]
    assert [site.label for site in Numbers("policy").sites(ORDINARY)] == ["window =", "lam =", "total ="]
    labels = [site.label for site in Complete("policy").sites(ORDINARY)]
    assert labels[:4] == ["after K, d =", "after window =", "after lam =", "after total ="]
    assert labels[4:] == ["after for x, arm, reward in history[-window:]:"]


def test_numbers_inside_expressions_are_sites_but_indices_are_not():
    program = "def policy(c, h, t):\n    x = h[-50:] + c[1]\n    return x[0, 2:3] + 2.5 * f(axis=1)\n"
    sites = Numbers("policy").sites(program)
    assert [site.label for site in sites] == ["x = h[-", "return x[0, 2:3] +"]


def test_every_odd_program_that_defines_the_function_is_understood():
    understood = [program for program in ODD if EditLine("policy").sites(program)]
    assert len(understood) >= 10


def test_a_line_prompt_shows_the_versions_and_ends_at_the_site():
    style = EditLine("policy")
    site = style.sites(ORDINARY)[1]
    worse = candidate(ORDINARY.replace("50", "99"), id_=3, score=-0.9)
    showing = Showing(
        worse=worse, notes=["noise\n0.2"], variants=[(-0.25, "    lam = 3.0"), (-0.125, "lam = 2")]
    )
    proposal = style.propose(candidate(ORDINARY), site, showing)
    assert proposal.prompt.startswith("import numpy as np\n\n\n# noise 0.2\n\n\ndef policy_v0(")
    assert proposal.prompt.count("window = 99") == 1
    assert proposal.prompt.endswith(
        "    window = 50\n    # score -0.250: lam = 3.0\n    # score -0.125: lam = 2\n    lam ="
    )
    assert (
        "# policy_v2 changes one line of policy_v1\ndef policy_v2(context, history, t):\n" in proposal.prompt
    )
    assert proposal.avoid == " 1.0"
    assert proposal.assemble(" 2.0\n    junk = 1\n") == ORDINARY.replace("lam = 1.0", "lam = 2.0")
    assert (proposal.parent_id, proposal.site, proposal.style) == (7, "lam =", "edit_line")


def test_prompts_give_the_scores_of_both_versions_if_wanted():
    style = EditLine("policy")
    worse = candidate(ORDINARY.replace("50", "99"), id_=3, score=-0.9)
    prompt = style.propose(candidate(ORDINARY), style.sites(ORDINARY)[0], Showing(worse, score=-0.25)).prompt
    assert "# score -0.9000\ndef policy_v0(" in prompt
    assert "# score -0.2500\ndef policy_v1(" in prompt
    alone = style.propose(candidate(ORDINARY), style.sites(ORDINARY)[0], Showing(score=-0.25)).prompt
    assert "_v0(" not in alone
    assert "# score -0.2500\ndef policy_v1(" in alone


def test_completing_keeps_the_beginning_and_what_follows_the_function():
    program = ORDINARY + "\n\nLATER = 1\n"
    style = Complete("policy")
    site = next(site for site in style.sites(program) if site.label == "after lam =")
    proposal = style.propose(candidate(program), site, Showing())
    assert proposal.prompt.endswith("    window = 50\n    lam = 1.0")
    made = proposal.assemble("\n    return 0\n```\nThat is it.")
    assert made.endswith("    lam = 1.0\n    return 0\n\n\nLATER = 1\n")


def test_rewriting_asks_instruct_models_in_a_chat_and_base_models_by_versions():
    parent = candidate(ORDINARY)
    base = Rewrite(ARMS)
    proposal = base.propose(parent, base.sites(ORDINARY)[0], Showing())
    assert proposal.prompt.endswith("\n\n\ndef policy_v2(context, history, t):")
    chat = Rewrite(ARMS, lambda message: f"<user>{message}<answer>")
    proposal = chat.propose(
        parent, base.sites(ORDINARY)[0], Showing(worse=candidate("x", score=-0.9), notes=["n"])
    )
    assert proposal.prompt.endswith(
        "<answer>```python\nimport numpy as np\n\n\ndef policy(context, history, t):"
    )
    assert all(
        part in proposal.prompt for part in ("Choose arms.", "score -0.5000", "score -0.9000", "- n\n")
    )
    made = proposal.assemble("\n    return 1\n```\nDone.")
    assert made == "import numpy as np\n\n\ndef policy(context, history, t):\n    return 1\n"


@pytest.mark.parametrize("chat", [None, str], ids=["base", "instruct"])
def test_rewriting_keeps_what_follows_the_function(chat):
    program = ORDINARY.replace("return int(np.argmax(scores))", "return pick(scores)")
    program += "\n\ndef pick(scores):\n    return int(np.argmax(scores))\n"
    style = Rewrite(ARMS, chat)
    proposal = style.propose(candidate(program), style.sites(program)[0], Showing())
    body = program.partition(ARMS.signature)[2]
    assert proposal.assemble(body) == program
    assert completion_of(proposal, program.replace("window = 50", "window = 20")).count("window = 20") == 1
    site = site_of(proposal, program)
    assert not site.holds(program, program.replace("np.argmax", "np.argmin"))
    ended = f"{ORDINARY}    # the end\n\n"
    assert style.propose(candidate(ended), style.sites(ended)[0], Showing()).assemble(
        body
    ) == ORDINARY.replace("int(np.argmax(scores))", "pick(scores)")


@pytest.mark.parametrize("name", ["f", "d", "ef", "x"])
def test_the_second_version_of_a_function_with_a_short_name_is_one_too(name):
    task = type(
        "Short", (ProgramTask,), {"__module__": __name__, "start": f"def {name}(x):\n    return x\n"}
    )()
    start = task.starts["named"]
    style = Rewrite(task)
    proposal = style.propose(candidate(start), style.sites(start)[0], Showing())
    assert proposal.prompt.endswith(f"\n\n\ndef {name}_v2(x):")


@pytest.mark.parametrize("style", EDITING, ids=lambda style: style.name)
def test_a_parent_without_the_function_is_refused(style):
    site = style.sites(ORDINARY)[0]
    with pytest.raises(ValueError, match="does not define policy"):
        style.propose(candidate("x = 1\n"), site, Showing())
