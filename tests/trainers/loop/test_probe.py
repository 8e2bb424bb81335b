"""The probe's prompts, where they are drawn from the islands, and what is told of the measure."""

from contextlib import nullcontext
from types import SimpleNamespace

from atlas_gym.trainers.loop.measure import BASE
from atlas_gym.trainers.loop.probe import Probes, drawn_proposals


def test_islands_that_do_not_ask_the_policy_are_not_drawn_from():
    def propose(draw, islands, n, purpose):
        return [SimpleNamespace(prompt=f"{draw} {island}") for island in islands]

    def drawn(*messages):
        agent = SimpleNamespace(islands={0: None, 1: None}, messages=messages, propose=propose)
        return [proposal.prompt for proposal in drawn_proposals(agent, 3, 1, {"1 1"})]

    assert drawn(0) == ["0 1", "2 1", "3 1"]
    assert drawn(0, 1) == []


def test_the_base_model_is_announced_once_however_many_phases_begin_with_it():
    kept, heard = {}, []
    store = SimpleNamespace(
        probe=lambda number, moment: kept.get((number, moment)),
        add_probe=lambda number, moment, result: kept.update({(number, moment): result}),
        probes=lambda: dict(kept),
    )
    backend = SimpleNamespace(serving=lambda adapter: nullcontext("generator"))
    run = SimpleNamespace(
        config=None, store=store, backend=backend, tell=lambda *event: heard.append(event[:2])
    )
    probes = Probes(run, None, SimpleNamespace(answers=lambda generator: {}))
    for number in (BASE, BASE, 1, 1):
        probes.measure(number)
    assert [number for what, number in heard if what == "measured"] == [BASE, 1, 1]
