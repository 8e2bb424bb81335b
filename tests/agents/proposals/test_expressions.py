"""Right sides that are grown at random."""

import ast

import pytest
from hypothesis import given

from atlas_gym.agents.proposals import Expressions, Showing
from atlas_gym.program_text import program_key
from atlas_gym.seeding import stream
from tests.agents.proposals.programs import ORDINARY, any_program, candidate

STYLE = Expressions("policy")


def grown(program, n=40):
    """For each site its label and what is written there."""
    for site in STYLE.sites(program):
        proposal = STYLE.propose(candidate(program), site, Showing())
        for text in STYLE.write(proposal, n, stream(1, site.label)):
            yield site.label, text.strip(), proposal.assemble(text)


@given(any_program)
def test_what_is_grown_is_python_and_not_the_parent(program):
    for _, _, made in grown(program, 3):
        assert program_key(made) not in (None, program_key(program))


def test_constants_are_scaled_and_expressions_replaced_wrapped_and_combined():
    written = {}
    for label, text, _ in grown(ORDINARY):
        written.setdefault(label, []).append(text)
    assert any(text.isdigit() for text in written["window ="])
    scores = written["scores ="]
    assert len(set(scores)) > 30
    assert any("np.tanh(" in text for text in scores)
    assert any(text.startswith("(context @ np.ones(d)") and text.endswith(")") for text in scores)


def test_only_names_that_are_bound_before_the_line_are_used():
    known = {"np", "context", "K", "d", "window", "lam", "total", "history", "t", "int"}
    for label, text, _ in grown(ORDINARY):
        if label == "total =":
            names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
            assert names <= known


def test_arguments_that_the_program_does_not_use_are_tried():
    program = "def policy(size, weight, due):\n    return -due\n"
    names = {
        node.id
        for _, text, _ in grown(program)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name)
    }
    assert names == {"size", "weight", "due", "abs"}


@pytest.mark.parametrize("library", ["np.", "torch.", ""])
def test_functions_are_those_of_the_programs_library(library):
    program = f"def policy(x):\n    a = {library}abs(x)\n    return a * x\n"
    written = [text for _, text, _ in grown(program)]
    assert any(f"1.0 / (1.0 + {library}abs(" in text for text in written)
    assert any(f"{library}log1p(" in text for text in written) == bool(library)
    assert not any(other in text for text in written for other in {"np.", "torch."} - {library})
