"""The probe's prompts, where they are drawn from the islands."""

from types import SimpleNamespace

from trainers.loop.probe import drawn_proposals


def test_islands_that_do_not_ask_the_policy_are_not_drawn_from():
    def propose(draw, islands, n, purpose):
        return [SimpleNamespace(prompt=f"{draw} {island}") for island in islands]

    def drawn(*messages):
        agent = SimpleNamespace(islands={0: None, 1: None}, messages=messages, propose=propose)
        return [proposal.prompt for proposal in drawn_proposals(agent, 3, 1, {"1 1"})]

    assert drawn(0) == ["0 1", "2 1", "3 1"]
    assert drawn(0, 1) == []
