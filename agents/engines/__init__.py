"""Engines write text: transformers in this process, vLLM, or a server, all behind one protocol (`engine`).

In: requests, each a prompt, what has been kept of its parent, and how many samples. Out: completions, as they
come. What is done with them lies above.
"""
