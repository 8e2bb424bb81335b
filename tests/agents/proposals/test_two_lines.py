"""Two lines that depend on each other."""

import pytest

from atlas_gym import make_task
from atlas_gym.agents.proposals import Showing, TwoLines
from atlas_gym.agents.proposals.completing import completion_of, opening_of
from tests.agents.proposals.programs import ORDINARY, candidate

STYLE = TwoLines("policy")
INLINED = make_task("ATLAS-Bandit-v0").starts["inlined"]


def proposal_at(label, program=INLINED):
    (site,) = [site for site in STYLE.sites(program) if site.label == label]
    return STYLE.propose(candidate(program), site, Showing())


def test_sites_join_an_assignment_to_the_next_and_to_its_use():
    assert [site.label for site in STYLE.sites(INLINED)] == [
        "X = & y =", "X = & A =", "y = & A =", "y = & b =", "A = & b =", "A = & theta =", "b = & theta =",
        "theta = & A_inv =", "theta = & scores =", "A_inv = & bonus =", "bonus = & scores =", "scores = & return",
    ]  # fmt: skip


def test_numbers_can_be_left_out():
    labels = {site.label for site in TwoLines("policy", numbers=False).sites(ORDINARY)}
    assert {"window = & lam =", "lam = & total =", "total = & total +="} <= {
        site.label for site in STYLE.sites(ORDINARY)
    }
    assert not any("window" in label or "lam" in label for label in labels)


@pytest.mark.parametrize(
    ("body", "labels"),
    [
        ("    x = 1; y = 2\n    return x\n", ["x = & return"]),
        ("    x = 1\n    a()\n    a()\n    a()\n    return x\n", []),
        ("    x = 1\n    a()\n    a()\n    return x\n", ["x = & return"]),
        ("    x = 1\n    for i in f(x):\n        pass\n", ["x = & for i in"]),
        ("    x = (1 +\n      2)\n    return x\n", []),
        ("\tx = 1\n\tx += 2\n\treturn 0\n", ["x = & x +="]),
        ("    for i in c:\n        i = 2\n    return i\n", ["i = & return"]),
    ],
)
def test_odd_layouts(body, labels):
    assert [site.label for site in STYLE.sites(f"@deco\ndef policy(c, h, t):\n{body}")] == labels


def test_a_prompt_ends_at_the_first_site_and_a_completion_behind_the_second_line():
    proposal = proposal_at("X = & A =")
    assert "# policy_v2 changes two lines of policy_v1\ndef policy_v2(" in proposal.prompt
    assert proposal.prompt.endswith("    X =")
    assert proposal.stop == "3 lines"
    assert proposal.avoid.startswith(" history.contexts[-50:]\n    y = ")
    assert proposal.avoid.endswith("\n    A = np.eye(d) + X.T @ X")
    made = proposal.assemble(" 1\n    y = 2\n    A = 3\n    junk\n")
    assert "    X = 1\n    y = 2\n    A = 3\n    b = X.T @ y\n" in made


def test_a_rule_patch_of_two_lines_is_a_completion():
    proposal = proposal_at("X = & y =")
    patched = INLINED.replace("-50:", "-12:")
    assert opening_of(proposal, INLINED).holds(INLINED, patched)
    completion = completion_of(proposal, patched)
    assert completion == " history.contexts[-12:]\n    y = history.rewards[-12:]\n"
    assert proposal.assemble(completion) == patched
    assert not opening_of(proposal_at("y = & b ="), INLINED).holds(INLINED, patched)
    three = INLINED.replace("-50:]\n    y", "-12:]\n    z = 1\n    y")
    assert not opening_of(proposal, INLINED).holds(INLINED, three)
    assert completion_of(proposal, three) is None


def test_comments_are_not_written_and_a_missing_line_ends_the_completion():
    proposal = proposal_at("X = & y =")
    commented = INLINED.replace("-50:]", "-12:]  # less")
    assert completion_of(proposal, commented) == " history.contexts[-12:]\n    y = history.rewards[-12:]\n"
    dropped = INLINED.replace("    y = history.rewards[-50:]\n", "")
    completion = completion_of(proposal, dropped)
    assert completion == " history.contexts[-50:]\n\n"
    assert proposal.assemble(completion) == dropped
    (site,) = [site for site in STYLE.sites(commented) if site.label == "X = & y ="]
    assert "#" not in STYLE.propose(candidate(commented), site, Showing()).avoid
