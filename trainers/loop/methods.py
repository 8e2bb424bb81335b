"""What each method's name stands for: nothing but what differs from the defaults.

A configuration names a method, and every single value can be set apart from it: ATLAS without its strategist is
`--supporters.strategist.form off`.
"""

from collections.abc import Mapping
from typing import Any

Settings = Mapping[str, Any]

_OFF: Settings = {"form": "off"}
_NO_SUPPORTERS: Settings = {"exploration": _OFF, "strategist": _OFF, "inspector": _OFF}


def _alone(writer: str) -> Settings:
    return {"exploration": {"writers": {writer: 1.0}}}


_UNTUNED: Settings = {"tuning": False, "supporters": _NO_SUPPORTERS}

METHODS: Mapping[str, Settings] = {
    # ATLAS, all defaults: four writers by their yields, three supporters, a reference that moves through the gate, each
    # phase goes on from the last policy.
    "atlas": {},
    # The paper's ablation: a moving reference without supporters or gate.
    "evodpo": {"phase": {"reference": "every_phase"}, "supporters": _NO_SUPPORTERS, **_alone("agent")},
    # EvoTune (Surina et al., 2025): fixed reference, every phase begins at the base model.
    "evotune": {
        "phase": {"reference": "fixed", "initialisation": "base"},
        "supporters": _NO_SUPPORTERS,
        **_alone("agent"),
    },
    # Evolutionary search with the untuned model.
    "search": {**_UNTUNED, **_alone("agent")},
    # The untuned model on the starting program over and over: what evolution itself is worth.
    "best-of-n": {**_UNTUNED, **_alone("agent"), "agent": {"evolve": False}},
    # Controls without a model: the exploration supporter's rules, random numbers, random expressions.
    "supporter-alone": {
        "tuning": False,
        "supporters": {**_NO_SUPPORTERS, "exploration": {"form": "rules"}},
        **_alone("supporter"),
    },
    "numbers-alone": {**_UNTUNED, **_alone("numbers")},
    "expressions-alone": {**_UNTUNED, **_alone("expressions")},
    # ATLAS with one thing changed: shares that nothing moves, no other writer than the agent, no gate (the reference
    # stays, or follows every phase).
    "atlas-fixed-shares": {"exploration": {"by_yield": False}},
    "atlas-agent-alone": _alone("agent"),
    "atlas-fixed-reference": {"phase": {"reference": "fixed"}},
    "atlas-no-gate": {"phase": {"reference": "every_phase"}},
}
