"""ATLAS-Bandit-v0: a drifting linear contextual bandit played by a program.

In: the constants of the task and a seed. Out: choices of the program's, scored against the best arm. The trusted side
draws contexts, noise and drift (`instances`, `drift`) and plays them (`task`); `driver` calls the program in its
worker.
"""
