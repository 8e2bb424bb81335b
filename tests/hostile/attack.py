"""An attack, and how it becomes a program of one environment."""

import platform
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from atlas_gym.evaluation import Status

REFUSED = frozenset({Status.VIOLATION})
FAILED = frozenset(set(Status) - {Status.OK})
HARMLESS = frozenset({Status.OK})
SLOW = frozenset({Status.OK, Status.TIMEOUT})
"""Harmless, and maybe too slow for its limit on a busy machine."""
ERROR = frozenset({Status.ERROR})
TIMEOUT = frozenset({Status.TIMEOUT})
CRASHED = frozenset({Status.CRASHED})
BOAST = "GOTCHA-7f3a"
"""What a program says when it got away with something. Spelt in hexadecimal in the program's own text."""

_TEMPLATE = """\
import ctypes, gc, os, signal, socket, sys, threading, time
import numpy as np
{prelude}
MARKER, CANARY_FILE, LOOT, PORT, DECOY = {marker!r}, {canary_file!r}, {loot!r}, {port}, {decoy}
TRUSTED = os.getppid()
DONE = []

def boast(text=''):
    raise RuntimeError(bytes.fromhex('{boast}').decode() + ' ' + str(text))

def best(names, arguments):
    {steal}

def attack(*arguments):
{code}

{at_load}
def {function}({signature}):
    answer = {at_call}
    return {answer} if answer is None else answer
"""


@dataclass(frozen=True)
class Attack:
    """One way of cheating or doing harm."""

    name: str
    """Unique."""
    category: str
    """For the report."""
    code: str
    """Body of `attack(*arguments)`. What it returns, unless None, is the program's answer."""
    statuses: frozenset[Status] = HARMLESS
    """The statuses in which it may end."""
    when: str = "first"
    """`load`: while the program is loaded; `first`: in the first call; `always`: in every call."""
    machine: str = ""
    """The architecture whose call numbers it uses; it is skipped on others. Empty: any."""
    runs: int = 1
    """How many runs of the program in one evaluation it takes to do anything."""

    @property
    def works_here(self) -> bool:
        """Whether this machine knows its system calls by the numbers that it uses."""
        return self.machine in ("", platform.machine())


@dataclass(frozen=True)
class Seat:
    """What programs of one environment look like, and a small task to try them on."""

    env_id: str
    """The environment's id."""
    task: Any
    """Small and short."""
    function: str
    """The entry function's name."""
    signature: str
    """Its arguments."""
    answer: str
    """An expression for a harmless answer, no better than an honest program's."""
    honest: str
    """A complete honest program."""
    steal: str = "return None"
    """Body of `best(names, arguments)`: the best answer, from the local names of a trusted frame; or None."""
    play_bare: Callable[[str, Any], float] | None = None
    """The same game by plain calls in one process: program and task -> score."""
    spared: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Attacks that achieve nothing against those plain calls, by name, beyond `catalogue.unconfined`; and why."""
    prelude: str = ""
    """Further imports."""
    runs: int = 2
    """Runs of the program in one evaluation, at least."""
    otherwise: Mapping[str, frozenset[Status]] = field(default_factory=dict, repr=False)
    """Attacks of the general catalogue that end otherwise here, by name: the statuses in which they may end."""
    margin: float = 0.0
    """By how much a score must exceed the honest one to count as forged."""
    attacks: tuple[Attack, ...] = field(default=(), repr=False)
    """Attacks that make sense in this environment only."""

    def program(self, attack: Attack, scene: Any) -> str:
        """The text of `attack` as a program of this environment."""
        call = {
            "load": "None",
            "first": "None if DONE else (DONE.append(1), attack({0}))[1]",
            "always": "attack({0})",
        }
        return _TEMPLATE.format(
            prelude=self.prelude,
            marker=str(scene.marker),
            canary_file=str(scene.canary_file),
            loot=str(scene.folder),
            port=scene.port,
            decoy=scene.decoy_pid,
            boast=BOAST.encode().hex(),
            steal=self.steal,
            code=textwrap.indent(textwrap.dedent(attack.code).strip(), "    "),
            at_load="attack()" if attack.when == "load" else "",
            function=self.function,
            signature=self.signature,
            at_call=call[attack.when].format(self.signature),
            answer=self.answer,
        )
