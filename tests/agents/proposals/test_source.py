"""Places in the text, splices, and what a program's constants are for."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atlas_gym.agents.proposals.constants import constants
from atlas_gym.agents.proposals.source import Source
from tests.agents.supporters.samples import BANDIT, BANDIT_LOOP, BURGERS


def parse(source: str, function: str = "policy") -> Source:
    code = Source.parse(source, function)
    assert code is not None
    return code


def roles(source: str, function: str = "policy") -> dict[str, str]:
    return {constant.name: constant.role for constant in constants(parse(source, function))}


def test_roles_by_use_and_by_name():
    assert roles(BANDIT) == {"window": "window", "lam": "regularisation", "alpha": "bonus"}
    assert roles(BURGERS, "pinn_loss_strategy") == {"w_ic": "weight"}


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("n = 30; x = history[-n:]", "window"),
        ("k = 0.5; A = np.eye(3) * k", "regularisation"),
        ("k = 0.9; w = k ** t", "discount"),
        ("gamma = 0.9", "discount"),
        ("k = 2.0; s = k * bonus", "bonus"),
        ("k = 2.0; s = k * loss_ic", "weight"),
        ("memory_size = 4", "window"),
        ("strange = 4", "other"),
    ],
)
def test_role(line, role):
    found = constants(parse(f"def policy(context, history, t):\n    {line}\n    return 0"))
    assert found[0].role == role
    assert found[0].named


def test_unnamed_constants_are_found_with_their_surroundings():
    source = "def policy(context, history, t):\n    s = 1.5 * bonus + history[-50:]\n    return s"
    assert [(c.name, c.value, c.named) for c in constants(parse(source))] == [
        ("1.5 * bonus", 1.5, False),
        ("history[-50:]", 50, False),
    ]


def test_edits_keep_everything_else():
    source = "# täglich ν ≈ 0\ndef policy(context, history, t):\n    θ = 50  # größer\n    return θ  # ende\n"
    code = parse(source)
    (constant,) = constants(code)
    assert code.apply((code.replace(constant.node, "20"),)) == source.replace("50", "20")


@pytest.mark.parametrize("source", ["", "def policy(", "policy = 3", "x = 1", "\x00", "(" * 3000, "\ud800"])
def test_no_code(source):
    assert Source.parse(source, "policy") is None


@given(st.sampled_from([BANDIT, BANDIT_LOOP]), st.integers(1, 10**6), st.text("aéθ漢", max_size=5))
@settings(max_examples=20)
def test_every_place_is_the_node_it_says(source, value, comment):
    code = parse(source.replace("50", str(value)).replace("d)", f"d)  # {comment}"))
    for kind in (ast.Call, ast.BinOp, ast.Name, ast.Assign):
        for node in code.nodes(kind):
            (again,) = ast.parse(code.text(node)).body
            again = again.value if isinstance(again, ast.Expr) else again
            assert ast.unparse(again) == ast.unparse(node)
