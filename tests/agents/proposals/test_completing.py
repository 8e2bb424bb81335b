"""From programs back to completions: assembling what is found gives the same program."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym.agents.proposals import Complete, EditLine, EditSite, MessageStyle, Numbers, Rewrite, Showing
from atlas_gym.agents.proposals.completing import completion_of, site_of
from atlas_gym.program_text import program_key
from tests.agents.proposals.programs import ARMS, EXPRESSIONS, ORDINARY, any_program, candidate

WRITING = [EditLine("policy"), Complete("policy"), Rewrite(ARMS)]
TEXTS = st.one_of(EXPRESSIONS, st.text(max_size=40), st.sampled_from(["'a # b'  # c", "2  # two", "'#'", ""]))


@pytest.mark.parametrize("style", WRITING, ids=lambda style: style.name)
@given(any_program, TEXTS)
def test_whatever_a_completion_makes_is_traced_back_to_one_that_makes_it(style, program, text):
    for site in style.sites(program):
        proposal = style.propose(candidate(program), site, Showing())
        made = proposal.assemble(text if proposal.stop == "line" else f"\n    return {text}\n")
        completion = completion_of(proposal, made)
        if program_key(made) is None:
            assert completion is None
        else:
            assert program_key(proposal.assemble(completion)) == program_key(made)
            assert completion.endswith("\n")


@pytest.mark.parametrize("style", WRITING, ids=lambda style: style.name)
def test_another_line_changed_is_no_completion(style):
    elsewhere = ORDINARY.replace("K, d = context.shape", "d, K = context.shape").replace(
        "import numpy as np", ""
    )
    for site in style.sites(ORDINARY):
        proposal = style.propose(candidate(ORDINARY), site, Showing())
        assert completion_of(proposal, elsewhere) is None
        assert completion_of(proposal, ORDINARY + "x = 1\n") is None
        assert completion_of(proposal, "def policy(") is None


def test_a_site_holds_its_own_changes_and_no_others():
    style = EditLine("policy")
    for site in style.sites(ORDINARY):
        proposal = style.propose(candidate(ORDINARY), site, Showing())
        site = site_of(proposal, ORDINARY)
        assert ORDINARY[site.start : site.end].split("#")[0].rstrip() == proposal.avoid
        assert site.holds(ORDINARY, proposal.assemble(" 5\n"))
        assert not site.holds(ORDINARY, proposal.assemble(" 5\n").replace("K, d", "d, K"))
        assert not site.holds(ORDINARY, ORDINARY[: site.start] + " 5\n    x = 6" + ORDINARY[site.end :])
    several = EditSite("", 3, 4, "function")
    assert several.holds("abcde", "abc\n\ne")
    assert not several.holds("abcab", "abb")  # what is before and after may not overlap


def test_styles_without_a_line_or_a_function_have_no_site():
    for style in (Numbers("policy"), MessageStyle(ARMS, "rewrite"), MessageStyle(ARMS, "diff")):
        for site in style.sites(ORDINARY):
            proposal = style.propose(candidate(ORDINARY), site, Showing())
            assert site_of(proposal, ORDINARY) is None
            assert completion_of(proposal, ORDINARY) is None


def test_a_whole_function_is_read_off_a_program_laid_out_in_another_way():
    program = ORDINARY.replace("import numpy as np\n\n\n", "import numpy as np\n")
    style = Rewrite(ARMS)
    proposal = style.propose(candidate(program), style.sites(program)[0], Showing())
    changed = program.replace("window = 50", "window = 20")
    assert site_of(proposal, program).holds(program, changed)
    completion = completion_of(proposal, changed)
    assert completion.startswith("\n")
    assert "window = 20" in completion
    assert program_key(proposal.assemble(completion)) == program_key(changed)


def test_a_parent_of_another_signature_leaves_nothing_open():
    program = ORDINARY.replace("(context, history, t)", "(context, history, t=0)")
    style = Rewrite(ARMS)
    proposal = style.propose(candidate(program), style.sites(program)[0], Showing())
    assert site_of(proposal, program) is None
    assert completion_of(proposal, program.replace("window = 50", "window = 20")) is None
