"""Weights: a causal language model with its tokens, and the adapters of policy and reference on it.

In: a name or a folder. Out: a `Policy` whose adapters are trained, copied, merged and saved.
"""
