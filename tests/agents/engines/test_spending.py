"""What models behind a chat API cost, and the budget that ends it."""

from dataclasses import replace

import pytest

from atlas_gym.agents.engines.engine import EngineError
from atlas_gym.agents.engines.spending import total
from tests.agents.engines.chat_backend import ASKED, SAID, YES, ask
from tests.agents.supporters import server as s


def test_spending_is_summed_over_processes(tmp_path):
    with s.serve(YES, SAID, YES, SAID) as server:
        for _ in range(2):
            ask(server, tmp_path)
    ((model, spent),) = total(tmp_path / "spending.jsonl").items()
    assert model == f"m at {server.base_url}"
    assert (spent["requests"], spent["prompt_tokens"], spent["completion_tokens"]) == (4, 210, 42)


def test_a_torn_line_of_the_ledger_spoils_only_itself(tmp_path):
    (tmp_path / "spending.jsonl").write_text('\n["other at x", 1, 2]\n["m at')
    with s.serve(YES, SAID) as server:
        ask(server, tmp_path)
    spent = total(tmp_path / "spending.jsonl")
    assert [row["requests"] for row in spent.values()] == [2, 1]


def test_a_spent_budget_ends_the_process_and_a_larger_one_goes_on(tmp_path):
    with s.serve(YES, SAID) as server:
        with pytest.raises(EngineError, match=r"is spent .*larger chat\.budget_tokens and resume the run"):
            ask(server, tmp_path, replace(ASKED, n=9), budget_tokens=300)
        asked = len(server.requests)
        assert asked == 4  # 6 tokens, then 120 each: the third reply is the last
        with pytest.raises(EngineError, match="is spent"):
            ask(server, tmp_path, budget_tokens=300)
        assert len(server.requests) == asked
        ask(server, tmp_path, budget_tokens=1000)
