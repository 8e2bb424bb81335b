"""The rules that answer where one of the agent's prompts asks for a new line."""

from dataclasses import replace

import numpy as np
import pytest

from atlas_gym import make_task
from atlas_gym.agents.proposals import InsertLine, Showing
from atlas_gym.agents.proposals.completing import completion_of, opening_of
from atlas_gym.agents.supporters.exploration import ExplorationRequest
from atlas_gym.agents.supporters.exploration_rules import RuleExplorationSupporter
from tests.agents.proposals.programs import candidate
from tests.agents.supporters.samples import BANDIT, EXPLORATION, MODELS, patch, posed, reply

TASK = make_task("ATLAS-Bandit-v0")
INLINED = TASK.starts["inlined"]
KINDS = {
    "after X =": {"scale", "wrap", "fade"},
    "after y =": {"scale", "wrap", "fade", "slice"},
    "after b =": {"scale", "wrap"},
    "after K, d =": set(),
}


def answers(label, program=INLINED, traits=TASK.traits, seeds=3):
    """(kind, program, completion) of what the rules say at a site, several times."""
    style = InsertLine(TASK.function)
    (site,) = [site for site in style.sites(program) if site.label == label]
    proposal = style.propose(candidate(program), site, Showing())
    opening = opening_of(proposal, program)
    for seed in range(seeds):
        request = ExplorationRequest(
            ("phase", 1, "prompt", 0),
            posed(TASK.function, traits),
            candidate(program),
            max_patches=4,
            opening=opening,
        )
        for made in RuleExplorationSupporter(seed=seed).consult(request).advice.patches:
            completion = completion_of(proposal, made.program)
            assert proposal.assemble(completion) == made.program
            yield made.kind, made.program, completion


@pytest.mark.parametrize("label", KINDS)
def test_the_rules_that_a_site_knows(label):
    found = list(answers(label))
    assert {kind for kind, *_ in found} == KINDS[label]
    for _, program, completion in found:
        assert completion.startswith(" ")
        assert len(program.split("\n")) == len(INLINED.split("\n")) + 1


def test_rules_for_past_data_follow_the_tasks_traits():
    assert {kind for kind, *_ in answers("after y =", traits=frozenset())} == {"scale", "wrap"}


@pytest.mark.parametrize("program", [INLINED, TASK.starts["slots"], BANDIT])
def test_every_new_line_runs(program):
    rng = np.random.default_rng(0)
    contexts, rewards = rng.normal(size=(70, 3)), rng.normal(size=70)
    history = type("History", (), {"contexts": contexts, "rewards": rewards, "__len__": lambda self: 70})()
    sites = [site.label for site in InsertLine(TASK.function).sites(program)]
    found = [
        made
        for label in dict.fromkeys(sites)
        if sites.count(label) == 1
        for made in answers(label, program, seeds=1)
    ]
    assert len(found) > 20
    for _, made, _ in found:
        names = {}
        exec(made, names)
        with np.errstate(all="ignore"):
            assert 0 <= names["policy"](rng.normal(size=(4, 3)), history, 70) < 4


def test_a_model_is_told_to_add_a_line_and_may_do_nothing_else():
    style = InsertLine("policy")
    (site,) = [site for site in style.sites(BANDIT) if site.label == "after window ="]
    proposal = style.propose(candidate(BANDIT), site, Showing())
    request = replace(EXPLORATION, opening=opening_of(proposal, BANDIT))
    below = BANDIT.count("\n", 0, site.start) + 2
    assert f"add a new line {below} to" in MODELS.exploration.values(request)["opening"]
    text = reply(
        patches=[
            patch(("    window = 50\n", "    window = 50\n    window = 20\n")),
            patch(("    window = 50\n", "    window = 50\n  window = 20\n")),
            patch(("    window = 50\n", "    window = 50\n    window = 20\n    window = 21\n")),
            patch(("window = 50", "window = 20")),
        ]
    )
    patches = MODELS.exploration.interpret(request, text).patches
    assert [completion_of(proposal, made.program) for made in patches] == [" window = 20\n"]
