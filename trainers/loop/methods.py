"""What each method's name stands for: nothing but what differs from the defaults.

A configuration names a method, and every single value can be set apart from it: ATLAS without its strategist is
`--supporters.strategist.form off`.
"""

from collections.abc import Mapping
from typing import Any

Settings = Mapping[str, Any]

_OFF: Settings = {"form": "off"}
_ALONE: Settings = {"exploration": _OFF, "strategist": _OFF, "inspector": _OFF}

METHODS: Mapping[str, Settings] = {
    # ATLAS, all defaults: three supporters, a reference that moves through the gate, each phase goes on from the last
    # policy.
    "atlas": {},
    # The paper's ablation: a moving reference without supporters or gate.
    "evodpo": {"phase": {"reference": "every_phase"}, "supporters": _ALONE},
    # EvoTune (Surina et al., 2025): fixed reference, every phase begins at the base model.
    "evotune": {"phase": {"reference": "fixed", "initialisation": "base"}, "supporters": _ALONE},
    # Evolutionary search with the untuned model.
    "search": {"tuning": False, "supporters": _ALONE},
    # The untuned model on the starting program over and over: what evolution itself is worth.
    "best-of-n": {"tuning": False, "supporters": _ALONE, "agent": {"evolve": False}},
    # The exploration supporter's edits and no model: what its rules find by themselves, as many programs a round.
    "supporter-alone": {
        "tuning": False,
        "exploration": {"samples": 0, "patches": 8},
        "supporters": {"exploration": {"form": "rules"}, "strategist": _OFF, "inspector": _OFF},
    },
    # Random changes of constants and no model: what numbers alone are worth.
    "numbers-alone": {
        "tuning": False,
        "supporters": _ALONE,
        "agent": {"styles": {"edit_line": 0.0, "numeric": 1.0}},
    },
    # ATLAS without its gate: the reference stays, or follows every phase.
    "atlas-fixed-reference": {"phase": {"reference": "fixed"}},
    "atlas-no-gate": {"phase": {"reference": "every_phase"}},
}
