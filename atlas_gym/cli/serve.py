"""`python -m atlas_gym serve`: its options, and where the token comes from."""

import argparse
import os
import secrets
import sys
from pathlib import Path
from typing import Any

from atlas_gym.arguments import SET, at_least_one, port
from atlas_gym.tasks.constants import constants_from
from atlas_gym.tasks.registry import make_task

_LOCAL = ("127.0.0.1", "localhost", "::1")
TOKEN_VARIABLE = "ATLAS_GYM_TOKEN"


def add_serve(commands: Any) -> None:
    """Add the command to those of `python -m atlas_gym`."""
    about = "serve an environment to OpenEnv clients, who send the token as a header"
    parser = commands.add_parser("serve", help=about, description=about)
    parser.add_argument("env_id", help="an id that `list` shows, module:Class or ./file.py:Class")
    parser.add_argument("--host", default="127.0.0.1", help="default: this machine alone")
    parser.add_argument("--port", type=port, default=8000, help="default 8000; 0 takes a free one")
    parser.add_argument("--token-file", type=Path, help=f"default: ${TOKEN_VARIABLE}, else a new token")
    parser.add_argument("--workers", type=at_least_one, default=2, help="programs at a time (default 2)")
    parser.add_argument("--sessions", type=at_least_one, default=64, help="sessions at a time (default 64)")
    parser.add_argument(
        "--max-bytes", type=at_least_one, default=262_144, help="greatest request (default 262144)"
    )
    parser.add_argument("--turns", type=at_least_one, default=1, help="programs per episode (default 1)")
    parser.add_argument("--set", **SET)
    parser.set_defaults(command=_serve)


def token(file: Path | None) -> tuple[str, bool]:
    """The token, and whether it is new; never an argument, which every user of the machine could read."""
    if file is not None:
        return file.read_text(encoding="utf-8").strip(), False
    given = os.environ.get(TOKEN_VARIABLE, "").strip()  # a header has no white space around it
    return (given, False) if given else (secrets.token_urlsafe(24), True)


def _serve(options: argparse.Namespace) -> int:
    constants = constants_from(options.set)
    make_task(options.env_id, **constants)  # a typo is answered before anything says that it serves
    from atlas_gym.bridges.openenv import ServerSettings, serve

    secret, new = token(options.token_file)
    settings = ServerSettings(
        options.env_id,
        secret,
        constants,
        turns=options.turns,
        workers=options.workers,
        sessions=options.sessions,
        max_bytes=options.max_bytes,
    )
    if new:
        print(f"token: {secret}", flush=True)
    if options.host not in _LOCAL:
        print("Others can connect, and the connection is not encrypted: put TLS before it.", file=sys.stderr)
    serve(settings, options.host, options.port)
    return 0
