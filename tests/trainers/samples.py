"""A candidate and the question it answers, as the store keeps them; and as much of a run as its steps need."""

from types import SimpleNamespace

from atlas_gym.agents.population.candidate import Candidate, Proposal
from atlas_gym.agents.supporters.build import Supporters

RECORD = Candidate(
    id=7, round=1, island=2, origin="agent", style="edit_line", site="window =", parent_id=0, prompt="prompt",
    completion=" 10\n", program="def f(): ...\n", program_key="abc", status="ok", score=-0.125, detail="",
    metrics={"normalized_score": 0.5}, parent_score=-0.25, is_copy=False, duplicate_of=None,
)  # fmt: skip
PROPOSAL = Proposal(
    style="edit_line", parent_id=0, site="window =", prompt="prompt", avoid=" 50", stop="line", prefix="a =",
    suffix="\n", island=2,
)  # fmt: skip


def parts(config, store, **own):
    """The parts of a run that one step needs; nobody advises, and nobody watches."""
    others = {"pool": None, "tasks": None, "supporters": Supporters()}
    return SimpleNamespace(config=config, store=store, tell=lambda *event: None, **others | own)
