"""A chat engine as tests use it: against a server of the test's own, without patience."""

from atlas_gym.agents.engines.engine import Sampling
from atlas_gym.agents.engines.open_engine import open_engine
from atlas_gym.agents.engines.settings import ChatSettings, EngineSettings, ServerSettings
from atlas_gym.agents.population.candidate import Proposal
from tests.agents.constants import with_constants
from tests.agents.supporters import server as s

YES = s.say("yes", {"prompt_tokens": 5, "completion_tokens": 1})
SAID = s.say('{"program": "x = 1"}', {"prompt_tokens": 100, "completion_tokens": 20})
ASKED = Proposal("Improve it.", n=1, stop="program", seed=3)
QUICK = {
    "deadline_s": 20.0,
    "wait_s": 0.0,
    "reply_bytes": 100_000,
    "concurrency": 1,
    "attempts": 1,
}


def backend(server, folder, **options):
    chat = {name: options.pop(name) for name in ("max_tokens", "budget_tokens") if name in options}
    settings = with_constants(ServerSettings, server.base_url, "m", **(QUICK | options))
    engine = EngineSettings("chat", server=settings, chat=ChatSettings(**chat))
    return open_engine(engine, Sampling(), model="", folder=folder)


def ask(server, folder, *requests, **options):
    return backend(server, folder, **options).generate(requests or [ASKED])
