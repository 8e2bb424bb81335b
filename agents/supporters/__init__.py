"""The three supporters: frozen advisers of the self-evolving research agent (paper, section 2.1).

Each role has two forms behind one interface, ``consult(request) -> Consultation(advice, call)``:

* rules (``*_rules``, the inspector's in ``inspector``): the embedded default, deterministic under the run's seed;
* a language model (``*_llm``) behind any OpenAI-compatible endpoint.

The request and the advice are frozen dataclasses (``exploration``, ``strategist``, ``inspector``). Advice is
validated and bounded by the same code for both forms, and the call's record is stored before advice is acted
on. A consultation never raises for anything a server does and never outlasts its deadline.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.supporters.call import Consultation, SupporterCall
    from agents.supporters.exploration import (
        ExplorationAdvice,
        ExplorationRequest,
        Failure,
        Patch,
    )
    from agents.supporters.inspector import Inspection, InspectorVerdict, MetricChange, Regression
    from agents.supporters.strategist import GateOutcome, StrategyAdvice, Telemetry, TuningControls

__all__ = [
    "Consultation",
    "ExplorationAdvice",
    "ExplorationRequest",
    "Failure",
    "GateOutcome",
    "Inspection",
    "InspectorVerdict",
    "MetricChange",
    "Patch",
    "Regression",
    "StrategyAdvice",
    "SupporterCall",
    "Telemetry",
    "TuningControls",
]

# Each name is imported when it is first asked for: whoever reads a run's calls needs no HTTP client.
_MODULES = ("call", "exploration", "inspector", "strategist")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = import_module(f"{__name__}.{module}")
            if hasattr(found, name):
                return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
