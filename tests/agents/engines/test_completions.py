"""The completions backend against scripted servers: what is sent and what is made of the answers."""

import threading

import pytest

from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.agents.engines.settings import ChatSettings, EngineSettings, ServerSettings, VLLMSettings
from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.agents.settings import AgentSettings
from tests.agents.completions_server import generator, texts, write
from tests.agents.supporters import server as s


def test_each_sample_is_one_seeded_request():
    requests = [
        Proposal("a =", 3, seed=5),
        Proposal("def f():", 1, stop="function"),
    ]
    with s.serve(write(" 1", tokens=4)) as server:
        found = generator(server.base_url).generate(requests)
    assert texts(found) == [[" 1\n"] * 3, [" 1\n"]]
    assert [c.tokens for row in found for c in row] == [4, 4, 4, 4]
    assert all(c.finished for row in found for c in row)
    bodies = [r.body for r in server.requests]
    assert len(bodies) == 4
    lines = [b for b in bodies if b["prompt"] == "a ="]
    assert len({b["seed"] for b in lines}) == 3
    assert all(b["stop"] == ["\n", "#"] and b["max_tokens"] == 48 and b["top_k"] == 40 for b in lines)
    (function,) = (b for b in bodies if b["prompt"] == "def f():")
    assert function["max_tokens"] == 256
    assert "#" not in function["stop"]
    with s.serve(write(" 1")) as again:
        generator(again.base_url).generate(requests[:1])
    assert {r.body["seed"] for r in again.requests} == {b["seed"] for b in lines}


def test_texts_are_cut_at_their_end():
    with s.serve(write(" 1\nb = 2", "length")) as server:
        (row,) = generator(server.base_url).generate([Proposal("a =", 1)])
    assert (row[0].text, row[0].finished) == (" 1\n", True)
    with s.serve(write(" 1 +", "length")) as server:
        (row,) = generator(server.base_url).generate([Proposal("a =", 1)])
    assert (row[0].text, row[0].finished) == (" 1 +", False)
    with s.serve(write("\n    return 1\n\nx = 1")) as server:
        (row,) = generator(server.base_url).generate([Proposal("def f():", 1, stop="function")])
    assert (row[0].text, row[0].finished) == ("\n    return 1\n\n", True)


def test_copies_are_drawn_again_with_other_seeds_up_to_a_bound():
    with s.serve(write(" 50"), write(" 50"), write(" 7")) as server:
        (row,) = generator(server.base_url, concurrency=1).generate([Proposal("a =", 1, avoid=" 50")])
    assert (row[0].text, row[0].tokens) == (" 7\n", 9)
    assert len({r.body["seed"] for r in server.requests}) == 3
    with s.serve(write(" 50")) as server:
        (row,) = generator(server.base_url).generate([Proposal("a =", 2, avoid=" 50")])
    assert [c.text for c in row] == [" 50\n"] * 2
    assert len(server.requests) == 2 * 9


def test_completions_are_handed_over_in_the_callers_thread():
    threads = set()
    with s.serve(write(" 1")) as server:
        generator(server.base_url).stream(
            [Proposal("a", 6)], lambda *_: threads.add(threading.current_thread())
        )
    assert threads == {threading.current_thread()}


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match=r"server\.model"):
        EngineSettings("openai")
    with pytest.raises(ValueError, match="credentials"):
        ServerSettings("http://me:secret@host/v1")
    with pytest.raises(ValueError, match="http or https"):
        ServerSettings("file:///etc/passwd")
    for kind, wrong in [
        (ServerSettings, {"concurrency": 0}),
        (VLLMSettings, {"memory": 0}),
        (ChatSettings, {"styles": {"edit_line": 1.0}}),
        (ChatSettings, {"styles": {"diff": 0.0}}),
        (ChatSettings, {"budget_tokens": -1}),
        (Sampling, {"temperature": 0.0}),
        (Sampling, {"top_k": 1}),
        (Sampling, {"max_new_tokens": 0}),
        (AgentSettings, {"styles": {"haiku": 1.0}}),
        (AgentSettings, {"styles": {"edit_line": 0.0}}),
        (AgentSettings, {"temperature": 0.0}),
        (AgentSettings, {"variants": -1}),
    ]:
        with pytest.raises(ValueError):
            kind(**wrong)
