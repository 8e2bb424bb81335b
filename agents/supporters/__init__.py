"""The three supporters: frozen advisers of the self-evolving research agent (paper, section 2.1).

Each role is one class in one file, ``exploration``, ``strategist`` and ``inspector``, with its request and advice. It
has two forms, which `consult.Supporter` chooses between:

* rules: the embedded default, deterministic under the run's seed;
* a language model behind any OpenAI-compatible endpoint.

Advice is validated and bounded by the same code for both. A consultation never raises for anything a server does and
never outlasts its deadline.
"""
