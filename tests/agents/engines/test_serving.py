"""Islands with models of their own: each request reaches the right one, each completion the caller's thread."""

import threading

import pytest

from atlas_gym.agents.engines.chat import ChatGenerator
from atlas_gym.agents.engines.completions import OpenAIBackend
from atlas_gym.agents.engines.engine import BackendError, Completion, Sampling
from atlas_gym.agents.engines.hf_transformers import TransformersGenerator
from atlas_gym.agents.engines.serving import RoutedGenerator, open_backend
from atlas_gym.agents.engines.settings import BackendSettings, IslandModel, OpenAISettings
from atlas_gym.agents.models.policy import POLICY, Policy
from atlas_gym.agents.models.settings import LoraSettings
from atlas_gym.agents.population.candidate import Proposal
from atlas_gym.agents.research_agent import ResearchAgent
from atlas_gym.agents.settings import AgentSettings
from atlas_gym.trainers.loop.config import RunConfig, load_config, refused_changes
from atlas_gym.trainers.store.plain import SettingsError
from tests.agents.completions_server import write
from tests.agents.proposals.programs import ARMS
from tests.agents.records import record
from tests.agents.supporters import server as s
from tests.agents.tiny import character_model, character_tokenizer


class Named:
    """Writes its own name, and the prompt."""

    def __init__(self, name, fails=None, waits_for=None, is_remote=False):
        self.name, self.fails, self.waits_for, self.is_remote = name, fails, waits_for, is_remote
        self.threads = set()

    def stream(self, requests, on_completion):
        self.threads.add(threading.current_thread())
        if self.waits_for:
            assert self.waits_for.wait(20)
        for index, request in enumerate(requests):
            for sample in range(request.n):
                on_completion(index, sample, Completion(f"{self.name} {request.prompt}", 1))
        if self.fails:
            raise self.fails


REQUESTS = [
    Proposal("a", 2, island=0),
    Proposal("b", 1, island=1),
    Proposal("c", 1),
    Proposal("d", 2, island=2),
    Proposal("f", 1, island=1),
]


def test_each_request_goes_to_the_model_of_its_island():
    generator = RoutedGenerator(Named("own"), {1: Named("one", is_remote=True), 2: Named("two")})
    found = [[c.text for c in row] for row in generator.generate(REQUESTS)]
    assert found == [["own a"] * 2, ["one b"], ["own c"], ["two d"] * 2, ["one f"]]


def test_servers_write_meanwhile_and_are_heard_in_the_callers_thread():
    begun = threading.Event()
    away, here = Named("away", is_remote=True), Named("here", waits_for=begun)
    away.stream = lambda requests, done, stream=away.stream: (begun.set(), stream(requests, done))
    heard = set()
    generator = RoutedGenerator(here, {1: away})
    generator.stream(REQUESTS[:2], lambda *_: heard.add(threading.current_thread()))
    assert heard == {threading.current_thread()}
    assert away.threads != here.threads == heard


def test_a_server_s_failure_is_the_caller_s():
    away = Named("away", fails=BackendError("gone"), is_remote=True)
    with pytest.raises(BackendError, match="gone"):
        RoutedGenerator(Named("here"), {1: away}).generate(REQUESTS[:2])


def test_a_run_s_backend_with_an_island_behind_a_server(tmp_path):
    policy = Policy(character_model(), character_tokenizer(), LoraSettings(rank=2))
    with s.serve(write(" 1")) as server:
        own = BackendSettings("openai", openai=OpenAISettings(server.base_url, "m"))
        backend = open_backend(
            BackendSettings(), Sampling(max_new_tokens=3), model="", folder=tmp_path, policy=policy,
            further=(IslandModel((1,), backend=own),),
        )  # fmt: skip
        with backend.serving(POLICY) as generator:
            mine, its = generator.generate([Proposal("ab", 2, island=0), Proposal("ab", 2, island=1)])
        backend.close()
    assert [c.text for c in its] == [" 1\n"] * 2
    assert set("".join(c.text for c in mine)) <= set("abc\n")
    assert len(server.requests) == 2


def test_the_agent_says_which_island_asks():
    agent = ResearchAgent(ARMS, AgentSettings(), seed=0)
    for island in range(3):
        agent.record(record(id=island, island=island, origin="seed", program=ARMS.starts["named"], score=1.0))
    assert [plan.island for plan in agent.propose(1, range(3), 2)] == [0, 1, 2]


def test_a_model_that_cannot_be_tuned_is_refused_where_a_phase_is_planned():
    served = {"backend": {"name": "openai", "openai": {"model": "m"}}}
    with pytest.raises(SettingsError, match=r"method: search .*lora_loading: vllm"):
        load_config(None, served)
    assert not load_config(None, served | {"method": "search"}).needs_policy
    assert load_config(None, served | {"rounds": 4}).phases == 0
    served["backend"]["openai"]["lora_loading"] = "vllm"
    assert load_config(None, served).needs_policy
    assert RunConfig().needs_policy


def test_an_island_whose_model_answers_messages_is_asked_in_messages():
    own = {"islands": [1], "backend": {"name": "chat", "chat": {"model": "m", "styles": {"diff": 1}}}}
    config = load_config(None, {"island_models": [own], "method": "search"})
    agent = ResearchAgent(ARMS, AgentSettings(), seed=0, messages=config.messages)
    start = ARMS.starts["named"]
    for island in range(2):
        agent.record(record(id=island, island=island, origin="seed", program=start, score=1.0))
    mine, its = agent.propose(1, range(2), 1)
    assert (mine.style, mine.stop) == ("edit_line", "line")
    assert (its.style, its.stop, its.head) == ("diff", "diff", start)
    assert start.strip() in its.prompt
    assert "<<<<<<< SEARCH" in its.prompt


def test_budgets_may_change_when_a_run_is_resumed():
    def config(**chat):
        return load_config(
            None, {"method": "search", "backend": {"name": "chat", "chat": {"model": "m"} | chat}}
        )

    assert not refused_changes(config(), config(budget_tokens=5))
    assert "max_tokens" in refused_changes(config(), config(max_tokens=5))


@pytest.mark.parametrize("islands", [[], [6], [1, 1], [-1]])
def test_islands_that_do_not_exist_are_refused(islands):
    with pytest.raises(SettingsError, match="islands"):
        load_config(None, {"island_models": [{"islands": islands}]})


def test_servers_say_that_they_are_waited_for_and_models_in_this_process_do_not():
    assert OpenAIBackend.is_remote
    assert ChatGenerator.is_remote
    assert not TransformersGenerator.is_remote
