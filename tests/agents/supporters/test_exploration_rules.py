"""The rule-based exploration supporter: bounded, deterministic, and honest about being rules."""

import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atlas_gym import make_task
from atlas_gym.agents.population.candidate import Candidate
from atlas_gym.agents.supporters.exploration import (
    LONGEST_PROGRAM,
    ExplorationAdvice,
    ExplorationRequest,
    ExplorationSupporter,
    is_near,
)
from atlas_gym.program_text import program_key, syntax_error
from atlas_gym.tasks.registry import find_task
from tests.agents.records import record
from tests.agents.supporters.samples import BANDIT, BANDIT_LOOP, BURGERS, EXPLORATION, failed, posed

TASKS = {
    "policy": "ATLAS-Bandit-v0",
    "pinn_loss_strategy": "ATLAS-Burgers-v0",
    "pack": "ATLAS-CirclePacking-v0",
}


def ask(
    program: str, *, function: str = "policy", seed: int = 0, traits=None, metrics=None, **fields
) -> ExplorationAdvice:
    task = posed(function, find_task(TASKS[function]).traits if traits is None else traits)
    parent = record(program, -0.2, metrics=metrics or {})
    request = ExplorationRequest(("round", 1, "island", 0), task, parent, **fields)
    return ExplorationSupporter(seed=seed).consult(request).advice


PROGRAMS = [("policy", BANDIT), ("policy", BANDIT_LOOP), ("pinn_loss_strategy", BURGERS)]
PROGRAMS += [("policy", text) for text in make_task("ATLAS-Bandit-v0").starts.values()]


@pytest.mark.parametrize(("function", "program"), PROGRAMS)
@pytest.mark.parametrize("seed", range(5))
def test_every_patch_is_a_new_runnable_bounded_edit(function, program, seed):
    patches = ask(program, function=function, seed=seed, max_patches=20).patches
    keys = {patch.program_key for patch in patches}
    assert len(keys) == len(patches)
    assert program_key(program) not in keys
    for patch in patches:
        assert syntax_error(patch.program, function) is None
        assert is_near(program, patch.program)


def test_same_seed_same_advice_and_no_global_randomness():
    random.seed(1)
    first = ask(BANDIT)
    random.seed(2)
    assert ask(BANDIT) == first
    assert ask(BANDIT, seed=1) != first
    supporter, other_round = ExplorationSupporter(), replace(EXPLORATION, key=("round", 4, "island", 1))
    assert supporter.consult(other_round).advice != supporter.consult(EXPLORATION).advice


def test_windows_of_one_length_change_together():
    program = BANDIT.replace("    window = 50\n", "").replace("-window:", "-50:")
    advice = [ask(program, seed=seed, max_patches=9) for seed in range(10)]
    windows = [patch for given in advice for patch in given.patches if patch.kind == "window"]
    assert windows
    assert all("-50:" not in patch.program for patch in windows)


def test_loss_rules():
    program = """def pinn_loss_strategy(residuals, ic_err, bc_err, extras):
    return torch.mean(residuals ** 2) + torch.mean(ic_err ** 2)
"""
    function = "pinn_loss_strategy"
    metrics = {"residual": 9.0, "residual_term": 0.1, "initial_term": 3.0}
    advice = ask(program, function=function, metrics=metrics, max_patches=30)
    assert "bc_err is not in the loss" in advice.critique
    assert "The initial term stayed the largest" in advice.critique
    programs = "\n".join(patch.program for patch in advice.patches)
    for part in ("mean(bc_err ** 2)", 'extras["u_x"].abs()', "sqrt(1 + ", 'extras["epoch"]', ".std()"):
        assert part in programs


def test_failures_are_counted_and_raise_the_rules_that_answer_them():
    def kinds(*failures: Candidate) -> list[str]:
        patches = (p for seed in range(20) for p in ask(BANDIT, seed=seed, failures=failures).patches)
        return [kind for patch in patches for kind in patch.kind.split("+")]

    singular = failed("error", "LinAlgError: Singular matrix")
    assert "root" not in kinds()
    assert "root" in kinds(failed("error", "invalid value encountered: nan"))
    assert kinds(singular).count("regularisation") > kinds().count("regularisation")
    told = ask(BANDIT, failures=(singular, singular, failed("timeout", ""))).critique
    assert "Recent failures: 2 error, 1 timeout." in told


@pytest.mark.parametrize(
    "program", ["", "def policy(", "x = 1", "\x00", "(" * 5000, "#" * (LONGEST_PROGRAM + 1)]
)
def test_unusable_program_is_skipped(program):
    answer = ExplorationSupporter().consult(replace(EXPLORATION, parent=record(program)))
    assert answer.advice == ExplorationAdvice()
    assert answer.call.status == "skipped"
    assert answer.call.reason


_PIECES = st.sampled_from(
    BANDIT.splitlines() + BANDIT_LOOP.splitlines() + BURGERS.splitlines()
    + ["    for x in history: s += x", "    é = 3", "    return a / b + np.sqrt(c)", "class A: k = 7"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=12), st.integers(0, 50))
def test_any_program_is_answered_within_the_bounds(lines, seed):
    program = "def policy(context, history, t):\n    pass\n" + "\n".join(lines)
    for patch in ask(program, seed=seed).patches:
        assert syntax_error(patch.program, "policy") is None
        assert is_near(program, patch.program)


LOOP = "def policy(x):\n    s = 0\n    for y in x:\n        s {} y\n    return s\n"


@pytest.mark.parametrize(
    ("trait", "kind", "program"),
    [
        ("regression", "regularisation", "def policy(x):\n    return np.linalg.inv(np.diag(x))\n"),
        ("memory", "history", LOOP.format("=")),
        ("drift", "forgetting", LOOP.format("+=")),
    ],
)
def test_rules_of_a_trait_apply_where_it_is_declared(trait, kind, program):
    for traits in (frozenset({trait}), frozenset()):
        kinds = {patch.kind for seed in range(4) for patch in ask(program, seed=seed, traits=traits).patches}
        assert any(kind in found for found in kinds) == bool(traits)


@pytest.mark.parametrize(
    ("value", "added"),
    [
        ("1.0 if y > 0 else 0.0", "(1.0 if y > 0 else 0.0)"),
        ("y > 0", "(y > 0)"),
        ("y * x", "y * x"),
        ("abs(y)",) * 2,
    ],
)
def test_what_is_added_up_stays_what_it_was(value, added):
    program = (
        f"def policy(context, history, t):\n    n = context\n    for y in history:\n        n += {value}\n"
        f"    return np.linalg.inv({value})\n"
    )
    advice = [ask(program, seed=seed, max_patches=20) for seed in range(4)]
    lines = {line for given in advice for patch in given.patches for line in patch.program.split("\n")}
    kept = re.compile(rf"        n = 0\.\d+ \* n \+ {re.escape(added)}")
    assert any(map(kept.fullmatch, lines))
    regular = re.compile(rf"    return np\.linalg\.inv\({re.escape(added)} \+ [\d.]+ \* np\.eye\(len\(.*")
    assert any(map(regular.fullmatch, lines))
