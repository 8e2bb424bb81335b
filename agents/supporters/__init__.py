"""The three supporters: frozen advisers of the self-evolving research agent (paper, section 2.1).

Each role has two forms behind one interface, ``consult(request) -> Consultation(advice, call)`` (`call.Supporter`):

* rules: the embedded default, deterministic under the run's seed;
* a language model behind any OpenAI-compatible endpoint.

``exploration``, ``strategist`` and ``inspector`` have a role's request and advice, frozen dataclasses, and its form as
a language model; rules stand in ``*_rules``, except for the inspector's. Advice is validated and bounded by the same
code for both forms, and the call's record is stored before advice is acted on. A consultation never raises for anything
a server does and never outlasts its deadline.
"""
