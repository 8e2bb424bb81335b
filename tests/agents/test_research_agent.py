import itertools
from dataclasses import replace

import pytest

from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.settings import AgentSettings
from tests.agents.constants import with_constants
from tests.agents.proposals.programs import ARMS, ORDINARY
from tests.agents.records import record, windowed


def agent(settings=None, *, seed=0, islands=3):
    """An agent whose islands hold the ordinary program."""
    made = ResearchAgent(ARMS, settings, seed=seed)
    for island in range(islands):
        made.record(windowed(50, -0.5, island=island, origin="seed", style="", site=""))
    return made


def test_a_proposal_is_an_edit_of_a_known_program():
    made = agent()
    proposals = made.propose(1, range(3), 8)
    assert [proposal.island for proposal in proposals] == [0, 1, 2]
    for proposal in proposals:
        parent = made.islands[proposal.island].best
        assert proposal.parent_id == parent.id
        assert proposal.parent_score == -0.5
        assert proposal.parent_key == parent.program_key
        assert proposal.n == 8
        assert proposal.assemble(proposal.avoid) == ORDINARY


def test_proposals_depend_on_their_labels_and_the_records_only():
    def prompts(proposals):
        return [(proposal.prompt, proposal.seed) for proposal in proposals]

    one, two = agent(), agent()
    expected = prompts(one.propose(4, range(3), 8))
    two.propose(9, [2, 0], 3)  # proposing changes nothing
    assert prompts(two.propose(4, range(3), 8)) == expected
    assert prompts(two.propose(4, [2], 8)) == expected[2:]
    seeds = {
        proposal.seed
        for made, round, purpose in itertools.product((one, agent(seed=1)), (4, 5), ("round", "probe"))
        for proposal in made.propose(round, range(3), 8, purpose=purpose)
    }
    assert len(seeds) == 2 * 2 * 2 * 3


def test_sites_that_pay_are_chosen_more_often():
    made = agent(islands=1)
    for step in range(40):
        made.record(windowed(100 + step, -0.4, site="lam =", parent_score=-0.5, round=1))
        for site in ("window =", "scores =", "total ="):
            made.record(windowed(500 + step, -0.6, site=site, parent_score=-0.5, round=1))
    sites = [made.propose(round, [0], 1)[0].site for round in range(150)]
    assert sites.count("lam =") > 75
    assert len(set(sites)) > 3


def test_copies_duplicates_and_tiny_gains_are_no_improvements():
    made = agent(AgentSettings(min_gain=0.01))
    good = windowed(9, -0.4, parent_score=-0.5)
    assert made.improves(good)
    assert not made.improves(replace(good, is_copy=True))
    assert not made.improves(replace(good, duplicate_of=3))
    assert not made.improves(replace(good, parent_score=-0.405))
    assert not made.improves(replace(good, parent_score=None))
    assert not made.improves(record(score=None, parent_score=-0.5))


def test_islands_of_different_instances_have_nothing_in_common():
    made = ResearchAgent(ARMS, with_constants(AgentSettings, migrate_every=1), seed=0, instances=2)
    for island in range(4):
        made.record(windowed(50 + island, -0.5 - island, island=island, origin="seed"))
    assert made.best_score == (-0.5 - 1.5) / 2  # the mean of both instances' best
    made.record(windowed(9, -0.1, island=1, round=1))
    made.record(windowed(8, -0.9, island=2, round=2))
    made.record(windowed(7, -0.9, island=3, round=2))
    assert made.islands[2].best.score == -0.5  # of island 0, its companion
    assert made.islands[3].best.score == -0.1  # of island 1


def test_the_sites_of_one_parent_share_an_islands_samples():
    made = agent()
    (whole,) = made.propose(1, [0], 8)
    parts = made.propose(1, [0], 8, sites=3)
    assert [part.n for part in parts] == [3, 3, 2]
    assert replace(parts[0], n=8) == whole  # one site is asked as ever
    assert len({part.site for part in parts}) == len({part.seed for part in parts}) == 3
    assert {part.parent_id for part in parts} == {whole.parent_id}
    everywhere = made.propose(1, [0], 50, sites=50)
    assert sum(part.n for part in everywhere) == 50
    assert len(everywhere) < 50  # there are no more


def test_a_neighbours_best_arrives_with_the_rounds_first_record():
    made = agent(with_constants(AgentSettings, migrate_every=3))
    made.record(windowed(9, -0.1, island=0, round=1))
    made.record(windowed(8, -0.7, island=1, round=2))
    assert made.islands[1].best.score == -0.5
    made.record(windowed(7, -0.8, island=1, round=3))
    assert made.islands[1].best.score == -0.1  # from island 0
    made.record(windowed(6, -0.8, island=0, round=4))  # round 3 was passed over, its migration is not
    assert {r.score for r in made.islands[0].population} == {-0.5, -0.1, -0.8}
    apart = agent(with_constants(AgentSettings, migrate_every=0))
    apart.record(windowed(9, -0.1, island=0, round=1))
    apart.record(windowed(7, -0.8, island=1, round=30))
    assert apart.islands[1].best.score == -0.5


def test_an_agent_is_rebuilt_by_replaying_its_records():
    settings = with_constants(
        AgentSettings,
        styles={"edit_line": 1, "complete": 1, "numeric": 1},
        adaptive_styles=True,
        migrate_every=2,
        variants=2,
    )
    made, log = ResearchAgent(ARMS, settings, seed=0), []

    def fold(*records):
        for entry in records:
            made.record(entry)
            log.append(entry)

    fold(*(windowed(50, -0.5, island=island, origin="seed") for island in range(3)))
    for round in range(1, 9):
        for sample, proposal in enumerate(made.propose(round, range(3), 2)):
            text = f" {round}" if proposal.texts is None else proposal.texts[0]
            origins = {
                "style": proposal.style,
                "site": proposal.site,
                "parent_score": proposal.parent_score,
            }
            score = -0.5 + (round * 7 + sample * 3) % 11 / 100
            fold(record(proposal.assemble(text), score, round=round, island=proposal.island, **origins))
    again = ResearchAgent(ARMS, settings, seed=0)
    for entry in log:
        again.record(entry)
    assert again.propose(9, range(3), 2) == made.propose(9, range(3), 2)
    assert again.best_score == made.best_score
    assert max(len(island.population) for island in again.islands.values()) > 4


def test_styles_are_used_by_weight_and_adapt_if_wanted():
    styles = {"edit_line": 1.0, "complete": 3.0, "rewrite": 0.0, "numeric": 1.0}
    fixed, adaptive = (
        agent(AgentSettings(styles=styles)),
        agent(AgentSettings(styles=styles, adaptive_styles=True)),
    )
    for made in (fixed, adaptive):
        for step in range(60):
            made.record(windowed(100 + step, -0.4, style="edit_line", parent_score=-0.5))
            made.record(windowed(300 + step, -0.6, style="complete", parent_score=-0.5))

    def count(made, style):
        return sum(made.propose(round, [0], 1)[0].style == style for round in range(120))

    assert count(fixed, "complete") > 50
    assert count(fixed, "rewrite") == 0
    assert count(adaptive, "edit_line") > 60


def test_the_numeric_style_writes_for_itself():
    (proposal,) = agent(AgentSettings(styles={"numeric": 1.0})).propose(1, [0], 5)
    assert len(proposal.texts) == 5
    assert proposal.prompt == ""
    assert proposal.assemble(proposal.texts[0]) != ORDINARY


def test_scored_versions_of_the_line_are_shown_if_wanted():
    made = agent(AgentSettings(variants=2), islands=1)
    for window, score in ((9, -0.4), (8, -0.3), (7, -0.6)):
        made.record(windowed(window, score))
    prompts = [proposal.prompt for round in range(40) for proposal in made.propose(round, [0], 1)]
    shown = [prompt for prompt in prompts if prompt.endswith("    window =")]
    assert shown
    for prompt in shown:
        assert "    # score -0.400: window = 9\n    # score -0.300: window = 8\n    window =" in prompt


def test_a_program_that_cannot_be_rewritten_is_refused_clearly():
    made = ResearchAgent(ARMS, seed=0)
    made.record(record("policy = lambda c, h, t: 0\n", -0.5))
    with pytest.raises(ValueError, match="finds anything to rewrite"):
        made.propose(1, [0], 1)


@pytest.mark.parametrize(
    "styles", [{}, {"telepathy": 1.0}, {"edit_line": 0.0}, {"edit_line": 1.0, "rewrite": -1.0}]
)
def test_styles_that_make_no_sense_are_refused(styles):
    with pytest.raises(ValueError, match="style"):
        AgentSettings(styles=styles)


def test_without_evolution_the_start_is_the_only_parent():
    made = agent(AgentSettings(evolve=False))
    for step in range(20):
        made.record(windowed(10 + step, -0.1, site="window =", parent_score=-0.5, round=1 + step))
    for proposal in made.propose(30, range(3), 4):
        assert proposal.parent_score == -0.5
        assert proposal.assemble(proposal.avoid) == ORDINARY
