import itertools
from collections import Counter
from dataclasses import replace

import pytest

from atlas_gym.agents.research_agent import NothingToEdit, ResearchAgent
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


def proposed(made, round, island, n=8, *, style="edit_line", **options):
    """What is asked on an island in a round, all of one style."""
    return made.propose(round, island, *made.parents(round, island), {style: n}, **options)


def shared(made, writers, evaluations=6, *, by_yield=True, rounds=100, island=0):
    """Evaluations by writer, over many rounds of one state."""
    total = Counter()
    for round in range(1, rounds + 1):
        parent, _ = made.parents(round, island)
        total += made.shares(round, island, parent, writers, evaluations, by_yield=by_yield)
    return total


def test_a_proposal_is_an_edit_of_a_known_program():
    made = agent()
    for island in range(3):
        (proposal,) = proposed(made, 1, island)
        assert proposal.island == island
        parent = made.islands[proposal.island].best
        assert proposal.parent_id == parent.id
        assert proposal.parent_score == -0.5
        assert proposal.parent_key == parent.program_key
        assert proposal.n == 8
        assert proposal.assemble(proposal.avoid) == ORDINARY


def test_proposals_and_shares_depend_on_their_labels_and_the_records_only():
    def prompts(made, round, island):
        return [(proposal.prompt, proposal.seed) for proposal in proposed(made, round, island)]

    one, two = agent(), agent()
    expected = [prompts(one, 4, island) for island in range(3)]
    proposed(two, 9, 2, 3)  # proposing changes nothing
    assert prompts(two, 4, 2) == expected[2]
    assert [prompts(two, 4, island) for island in range(3)] == expected
    assert shared(one, {"agent": 1, "numbers": 2}) == shared(two, {"agent": 1, "numbers": 2})
    labels = itertools.product((one, agent(seed=1)), (4, 5), range(3))
    assert len({proposal.seed for label in labels for proposal in proposed(*label)}) == 2 * 2 * 3


def test_sites_that_pay_are_chosen_more_often():
    made = agent(islands=1)
    for step in range(40):
        made.record(windowed(100 + step, -0.4, site="lam =", parent_score=-0.5, round=1))
        for site in ("window =", "scores =", "total ="):
            made.record(windowed(500 + step, -0.6, site=site, parent_score=-0.5, round=1))
    sites = [proposed(made, round, 0, 1)[0].site for round in range(150)]
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
    (whole,) = proposed(made, 1, 0)
    parts = proposed(made, 1, 0, sites=3)
    assert [part.n for part in parts] == [3, 3, 2]
    assert replace(parts[0], n=8) == whole  # one site is asked as ever
    assert len({part.site for part in parts}) == len({part.seed for part in parts}) == 3
    assert {part.parent_id for part in parts} == {whole.parent_id}
    everywhere = proposed(made, 1, 0, 50, sites=50)
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
        AgentSettings, styles={"edit_line": 1, "complete": 1}, migrate_every=2, variants=2
    )
    writers = {"agent": 1, "supporter": 1, "numbers": 1, "expressions": 1}
    made, log = ResearchAgent(ARMS, settings, seed=0), []

    def fold(*records):
        for entry in records:
            made.record(entry)
            log.append(entry)

    def asked(made, round, island):
        parent, worse = made.parents(round, island)
        shares = made.shares(round, island, parent, writers, 4, by_yield=True)
        return shares, made.propose(round, island, parent, worse, shares)

    fold(*(windowed(50, -0.5, island=island, origin="seed") for island in range(3)))
    for round in range(1, 9):
        for island in range(3):
            for sample, proposal in enumerate(asked(made, round, island)[1]):
                text = f" {round}" if proposal.texts is None else proposal.texts[0]
                score = -0.5 + (round * 7 + sample * 3) % 11 / 100
                fold(replace(proposal.candidate(len(log), round, text), status="ok", score=score))
    again = ResearchAgent(ARMS, settings, seed=0)
    for entry in log:
        again.record(entry)
    assert [asked(again, 9, island) for island in range(3)] == [asked(made, 9, island) for island in range(3)]
    assert again.best_score == made.best_score
    assert max(len(island.population) for island in again.islands.values()) > 4
    assert len({entry.writer for entry in log}) == 5  # the start's, the agent's two styles, and two others


def test_evaluations_go_to_whoever_finds_improvements_and_nobody_is_left_out():
    made = agent(islands=1)
    writers = {"agent": 1, "supporter": 1, "numbers": 1}
    for step in range(40):
        made.record(windowed(100 + step, -0.4, parent_score=-0.5, origin="supporter", style="window"))
        made.record(windowed(300 + step, -0.6, parent_score=-0.5))
        made.record(windowed(500 + step, -0.6, parent_score=-0.5, origin="numbers", style="numbers"))
    found = shared(made, writers)
    assert found.total() == 600
    assert found["supporter"] > 400
    assert min(found[writer] for writer in ("edit_line", "numbers")) > 0
    made.tuned()  # the model's yield is unknown again
    assert shared(made, writers)["edit_line"] > found["edit_line"]


def test_smoke_failures_and_lessons_are_no_evaluations_of_a_writer():
    made = agent(islands=1)
    before = made.yield_of("edit_line")
    made.record(record(score=None, evaluated=False))
    made.record(windowed(9, -0.4, parent_score=-0.5, id=-2, origin="supporter", style="window"))
    assert made.yield_of("edit_line") == made.yield_of("supporter") == before
    assert made.best_score == -0.4


def test_fixed_shares_are_in_proportion():
    settings = AgentSettings(styles={"edit_line": 1.0, "complete": 3.0, "rewrite": 0.0})
    found = shared(agent(settings), {"agent": 2, "supporter": 1, "expressions": 0}, by_yield=False)
    assert set(found) == {"edit_line", "complete", "supporter"}
    assert found["edit_line"] == pytest.approx(100, abs=20)
    assert found["complete"] == pytest.approx(300, abs=20)
    assert found["supporter"] == pytest.approx(200, abs=20)


@pytest.mark.parametrize("writer", ["numbers", "expressions"])
def test_writers_without_a_model_write_for_themselves(writer):
    proposals = proposed(agent(), 1, 0, 5, style=writer)
    assert sum(len(proposal.texts) for proposal in proposals) == 5
    for proposal in proposals:
        assert proposal.prompt == ""
        made = proposal.candidate(1, 1, proposal.texts[0])
        assert made.program != ORDINARY
        assert made.writer == made.origin == writer


def test_scored_versions_of_the_line_are_shown_if_wanted():
    made = agent(AgentSettings(variants=2), islands=1)
    for window, score in ((9, -0.4), (8, -0.3), (7, -0.6)):
        made.record(windowed(window, score))
    prompts = [proposal.prompt for round in range(40) for proposal in proposed(made, round, 0, 1)]
    shown = [prompt for prompt in prompts if prompt.endswith("    window =")]
    assert shown
    for prompt in shown:
        assert "    # score -0.400: window = 9\n    # score -0.300: window = 8\n    window =" in prompt


def test_a_program_that_nobody_can_change_is_refused_clearly():
    made = agent()
    with pytest.raises(NothingToEdit, match=r"change in it, of agent \(edit_line\), numbers: numbers needs"):
        made.require_writers("policy = lambda c, h, t: 0\n", {"agent": 1, "numbers": 1}, "it")
    assert made.require_writers("x", {"agent": 1, "supporter": 2}, "it") == {"supporter": 2}


def test_without_evolution_the_start_is_the_only_parent():
    made = agent(AgentSettings(evolve=False))
    for step in range(20):
        made.record(windowed(10 + step, -0.1, site="window =", parent_score=-0.5, round=1 + step))
    for island in range(3):
        (proposal,) = proposed(made, 30, island, 4)
        assert proposal.parent_score == -0.5
        assert proposal.assemble(proposal.avoid) == ORDINARY
