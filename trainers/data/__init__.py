"""From candidates to a phase's pairs (D_k): sampling, evaluating each program once, measuring a sample, building pairs.

In: an engine, an evaluator and prompts. Out: preference pairs, and metrics of batches.
"""
