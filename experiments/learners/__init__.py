"""Learners on the ATLAS environments, one file each, to be copied and changed; none imports another.

`cma_es`, `tpe` and `ppo` choose the numbers of a template; `grpo` and `evodpo` tune a language model that rewrites
lines; `openevolve` and `shinka` are other projects' searches with their programs scored by our confined evaluator.
"""
