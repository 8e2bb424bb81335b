"""Other learners on the ATLAS environments: examples that run, and the leaderboard that compares them.

One file is one family of learners, readable from top to bottom; each `learn_...` function spends a number of
evaluations on an environment and returns the programs it would submit, in the order in which it found them.
"""
