"""ATLAS-Bandit-v0: a drifting linear contextual bandit played by a program."""
