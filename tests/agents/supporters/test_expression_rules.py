"""The rules that a supporter teaches with: they answer one of the agent's prompts, and stay within it."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from atlas_gym import make_task
from atlas_gym.agents.proposals import Complete, EditLine, Rewrite, Showing
from atlas_gym.agents.proposals.completing import completion_of, site_of
from atlas_gym.agents.supporters.exploration import ExplorationRequest, ExplorationSupporter
from atlas_gym.agents.supporters.settings import SupporterSettings
from tests.agents.proposals.programs import candidate
from tests.agents.supporters.samples import BANDIT, EXPLORATION, MODELS, patch, posed, reply

TASKS = {name: make_task(name) for name in ("ATLAS-Bandit-v0", "ATLAS-Burgers-v0", "ATLAS-TSP-v0")}
STARTS = [(name, start) for name, task in TASKS.items() for start in task.starts]


def answers(task, program, style, site, *, seed=0, n=6, traits=None, wider=False):
    """(kind, completion) of every patch at a site."""
    proposal = style.propose(candidate(program), site, Showing())
    request = ExplorationRequest(
        ("phase", 1, "prompt", 0), posed(task.function, task.traits if traits is None else traits),
        candidate(program), max_patches=n, site=site_of(proposal, program),
    )  # fmt: skip
    patches = ExplorationSupporter(SupporterSettings(wider_rules=wider), seed).consult(request).advice.patches
    found = []
    for made in patches:
        completion = completion_of(proposal, made.program)
        assert completion is not None
        assert proposal.assemble(completion) == made.program
        found.append((made.kind, completion))
    return found


@pytest.mark.parametrize(("name", "start"), STARTS)
@pytest.mark.parametrize("style", [EditLine, Complete], ids=lambda style: style.name)
@pytest.mark.parametrize("wider", [False, True], ids=["", "wider"])
def test_every_patch_at_a_site_is_an_answer_to_its_prompt(name, start, style, wider):
    task, program = TASKS[name], TASKS[name].starts[start]
    style = style(task.function)
    found = [answers(task, program, style, site, wider=wider) for site in style.sites(program)]
    assert sum(map(bool, found)) >= 0.8 * len(found)
    for own in found:
        assert len({completion for _, completion in own}) == len(own)


def test_a_whole_function_can_be_answered():
    task, program = TASKS["ATLAS-Bandit-v0"], TASKS["ATLAS-Bandit-v0"].starts["inlined"]
    style = Rewrite(task)
    found = answers(task, program, style, style.sites(program)[0], n=20)
    assert len(found) == 20
    assert any(text.count("-50:") == 0 for _, text in found)  # two lines that depend on each other


def at(label, *, style=EditLine, **options):
    task, program = TASKS["ATLAS-Bandit-v0"], TASKS["ATLAS-Bandit-v0"].starts["inlined"]
    style = style(task.function)
    (site,) = [site for site in style.sites(program) if site.label == label]
    return [pair for seed in range(6) for pair in answers(task, program, style, site, seed=seed, **options)]


EXPECTED = {
    "A =": {"scale", "slice", "fade", "wrap", "drop", "regularisation"},
    "b =": {"scale", "slice", "fade", "wrap"},
    "y =": {"scale", "fade"},
    "theta =": {"scale", "slice", "wrap"},
    "scores =": {"scale", "drop", "bonus", "wrap"},
}


@pytest.mark.parametrize("wider", [False, True], ids=["", "wider"])
@pytest.mark.parametrize("label", [*EXPECTED, "A_inv ="])
def test_the_rules_that_a_site_knows(label, wider):
    kinds = {part for kind, _ in at(label, n=12, wider=wider) for part in kind.split("+")}
    assert EXPECTED.get(label, set()) - {"slice"} <= kinds
    assert ("recent" in kinds) == (wider and label in ("theta =", "A_inv ="))
    if not wider:
        assert ("slice" in kinds) == (label in ("A =", "b ="))


@pytest.mark.parametrize("wider", [False, True], ids=["", "wider"])
def test_faded_arrays_keep_their_shape(wider):
    rng = np.random.default_rng(0)
    contexts, rewards = rng.normal(size=(7, 3)), rng.normal(size=7)
    history = SimpleNamespace(contexts=contexts, rewards=rewards)
    for label, whole in (("X =", contexts), ("y =", rewards)):
        faded = [text for kind, text in at(label, n=12, wider=wider) if kind == "fade"]
        assert {"linspace" in text for text in faded} == {False, wider}
        for text in faded:
            value = eval(text.strip(), {"np": np, "history": history})
            assert value.shape == whole.shape
            np.testing.assert_allclose(value[-1], whole[-1])
            assert np.all(np.abs(value[0]) <= np.abs(whole[0]))


def test_what_is_computed_anew_is_of_the_latest_entries_alone():
    rng = np.random.default_rng(0)
    known = {"np": np, "d": 3, "X": rng.normal(size=(50, 3)), "y": rng.normal(size=50)}
    known |= {"A": np.eye(3) + known["X"].T @ known["X"], "b": known["X"].T @ known["y"]}
    recent = [text.strip() for kind, text in at("theta =", n=12, wider=True) if kind == "recent"]
    assert {"b)" in text for text in recent} == {True, False}  # of either side
    for text in recent:
        windows = {int(number) for number in re.findall(r"\[-(\d+):\]", text)}
        (window,) = windows
        X, y = known["X"][-window:], known["y"][-window:]
        A, b = (known["A"], X.T @ y) if "(A," in text else (np.eye(3) + X.T @ X, known["b"])
        np.testing.assert_allclose(eval(text, dict(known)), np.linalg.solve(A, b))


def test_a_models_patches_keep_to_the_site_or_are_left_out():
    style = EditLine("policy")
    (site,) = [site for site in style.sites(BANDIT) if site.label == "window ="]
    proposal = style.propose(candidate(BANDIT), site, Showing())
    request = replace(EXPLORATION, site=site_of(proposal, BANDIT))
    text = reply(
        patches=[patch(("lam = 1.0", "lam = 0.1")), patch(("window = 50", "window = 20\n    x = 1"))],
        suggestions=[{"name": "window", "value": 12}, {"name": "alpha", "value": 0.5}],
    )
    patches = MODELS.exploration.interpret(request, text).patches
    assert [completion_of(proposal, made.program) for made in patches] == [" 12\n"]
