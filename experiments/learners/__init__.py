"""Learners on the ATLAS environments: single files to copy and change, and the leaderboard that compares them.

One method, one file, readable from top to bottom: `best_of_n`, `evodpo`, `grpo`, `ppo_template`, `optimisers`. On the
leaderboard each `learn_...` function spends a number of evaluations and returns what it would submit (`objective`).
"""
