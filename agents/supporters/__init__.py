"""The three supporters: frozen advisers of the self-evolving research agent (paper, section 2.1).

Each role has two forms behind one interface, ``consult(request) -> Consultation(advice, call)`` (`call.Supporter`):

* rules (``*_rules``): the embedded default, deterministic under the run's seed;
* a language model (``*_llm``) behind any OpenAI-compatible endpoint. Both of the inspector's stand in ``inspector``.

The request and the advice are frozen dataclasses (``exploration``, ``strategist``, ``inspector``). Advice is
validated and bounded by the same code for both forms, and the call's record is stored before advice is acted
on. A consultation never raises for anything a server does and never outlasts its deadline.
"""
