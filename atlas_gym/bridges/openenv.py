"""The environments behind OpenEnv's protocol (needs the extra `serve`, whose import takes seconds).

Every session is an episode of its own; all sessions share one pool, so a program that hangs occupies one worker until
its time limit. Programs run confined; the server holds the hidden state and never runs them.
"""

import asyncio
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from atlas_gym.bridges.guard import App, Guard
from atlas_gym.envs.episode import Episode, EpisodeSettings
from atlas_gym.evaluation import EvaluatorPool
from atlas_gym.optional import require
from atlas_gym.tasks.program_task import ProgramTask
from atlas_gym.tasks.registry import make_task

server: Any = require("openenv.core.env_server", "serve")


@dataclass(frozen=True)
class ServerSettings:
    """What is served, to whom, and how much of it at a time."""

    env_id: str
    """A registered id."""
    token: str = field(repr=False)
    """What clients send as `Authorization: Bearer TOKEN`."""
    constants: dict[str, Any] = field(default_factory=dict)
    """The environment's own keywords."""
    turns: int = 1
    """Programs per episode."""
    workers: int = 2
    """Programs that run at a time; with one, a program that hangs holds everybody up for its time limit."""
    sessions: int = 64
    """Sessions at a time; one more is refused."""
    max_bytes: int = 262_144
    """Greatest size of a request or message; four times the longest program."""


class NoEpisode(RuntimeError):
    """A program came without an episode to play it in."""


class ProgramAction(server.Action):
    """A program to evaluate."""

    program: str


class ProgramObservation(server.Observation):
    """What the environment shows, with the fields of `info` that a learner needs."""

    prompt: str = ""
    status: str | None = None
    score: float | None = None
    normalized_score: float | None = None
    feedback: str = ""
    task_seed: int = 0


class ServedEnvironment(server.Environment):
    """One session's episodes."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, task: ProgramTask, settings: EpisodeSettings, pool: EvaluatorPool):
        super().__init__()
        self._task = task
        self._settings = settings
        self._pool = pool
        self._episode: Episode | None = None
        self._state = server.State(step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> Any:
        """Pose the task of a seed, or a random one."""
        task_seed = secrets.randbelow(2**48) if seed is None else seed
        self._episode = Episode(self._task, self._settings, task_seed)
        self._state = server.State(episode_id=episode_id, step_count=0)
        return _observation(self._episode, reward=None)

    def step(self, action: Any, timeout_s: float | None = None, **options: Any) -> Any:
        """Evaluate a program; the time limit is the environment's, whatever the client would like."""
        return asyncio.run(self.step_async(action))

    async def step_async(self, action: Any, timeout_s: float | None = None, **options: Any) -> Any:
        """The same; cancelled, it takes a program that still waits out of the queue."""
        episode = self._episode
        if episode is None or episode.over:
            raise NoEpisode("the episode is over or has not begun: reset first")
        evaluation = await asyncio.wrap_future(self._pool.submit(action.program, episode.task))
        self._state.step_count += 1
        return _observation(episode, episode.record(action.program, evaluation))

    @property
    def state(self) -> Any:
        """Episode id and steps taken."""
        return self._state


def _observation(episode: Episode, reward: float | None) -> ProgramObservation:
    names = ("status", "score", "normalized_score", "feedback", "task_seed")
    shown = {name: value for name, value in episode.info().items() if name in names}
    return ProgramObservation(prompt=episode.observation(), reward=reward, done=episode.over, **shown)


def build_app(settings: ServerSettings, pool: EvaluatorPool) -> App:
    """The guarded ASGI application; `pool` is the caller's to close."""
    task = make_task(settings.env_id, **settings.constants)
    episodes = EpisodeSettings(settings.turns)
    Episode(task, episodes, 0)  # a wrong setting is an error now, not at the first session
    app = server.create_fastapi_app(
        partial(ServedEnvironment, task, episodes, pool),
        ProgramAction,
        ProgramObservation,
        # A session that was opened by a request of its own (/mcp) has no socket that could be closed.
        concurrency_config=server.ConcurrencyConfig(
            max_concurrent_envs=settings.sessions, session_timeout=Guard.idle_s
        ),
    )
    refusals = require("fastapi.exceptions", "serve")
    app.add_exception_handler(refusals.RequestValidationError, _say_what_is_wrong)
    app.add_exception_handler(refusals.HTTPException, _say_what_is_wrong)
    app.add_exception_handler(NoEpisode, _say_where_episodes_are)
    # Beside the sessions, requests without one.
    return Guard(app, settings.token, settings.max_bytes, max_requests=settings.sessions + 16)


async def _say_what_is_wrong(request: Any, error: Any) -> Any:
    """HTTP 422 and the like in words. The usual answers repeat the value, which is not JSON where it is infinite."""
    said = error.detail if hasattr(error, "detail") else error.errors()
    if isinstance(said, list):
        said = "; ".join(f"{'.'.join(map(str, e['loc']))[:100]}: {e['msg']}" for e in said[:10])
    status = getattr(error, "status_code", 422)
    return require("starlette.responses", "serve").PlainTextResponse(str(said), status_code=status)


async def _say_where_episodes_are(request: Any, error: Any) -> Any:
    """HTTP 409: each request of its own has an environment of its own, so its program has no episode."""
    said = "a single request has no episode: open a session, a socket at /ws, and reset it"
    return require("starlette.responses", "serve").PlainTextResponse(said, status_code=409)


def serve(settings: ServerSettings, host: str, port: int) -> None:
    """Serve until interrupted, and say so once that is done; ValueError if it cannot be at this address."""
    uvicorn: Any = require("uvicorn", "serve")

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                where = self.servers[0].sockets[0].getsockname()[1]  # port 0 is any that was free
                print(f"serving {settings.env_id} on {host}:{where}", flush=True)

    with EvaluatorPool(settings.workers) as pool, suppress(KeyboardInterrupt):
        config = uvicorn.Config(
            build_app(settings, pool),
            host=host,
            port=port,
            log_level="warning",
            ws_max_size=settings.max_bytes,
            ws_max_queue=4,
            timeout_graceful_shutdown=5,  # seconds
        )
        try:
            Server(config).run()
        except SystemExit:  # it has said why
            raise ValueError(f"{host}:{port} is not to be had: give another --port or --host") from None
