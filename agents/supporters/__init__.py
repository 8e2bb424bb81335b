"""The three supporters: frozen advisers of the self-evolving research agent (paper, section 2.1).

Each role is one class in one file, `exploration`, `strategist` and `inspector`, and works by rules (the embedded
default, deterministic under the run's seed) or asks a language model behind any OpenAI-compatible endpoint. Advice is
validated and bounded by the same code for both.
"""
