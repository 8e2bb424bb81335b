"""Learners on the ATLAS environments: single files to copy and change, and the leaderboard that compares them.

One method, one file, readable from top to bottom: `best_of_n`, `evodpo`, `grpo`, `ppo_template`, `optimisers`. On the
leaderboard each `learn_...` spends a `Ledger`'s budget; `peers/` describes other projects' learners to `peer`.
"""
