"""W&B sweeps without W&B's server: `python -m experiments.sweep experiments/sweeps/random.yaml`.

The files are W&B's own and go to `wandb sweep` and `wandb agent` as they are. Here they are read by `definition`,
searched by `search` (grid, random, bayes), cut short by `hyperband`, and run by `runner`: each run is the file's own
`command` in a process of its own, with its parameters injected the way W&B's agent does it. Everything is in
`state`, a small SQLite file in the sweep's folder; killed and started again, a sweep goes on with the runs it had.

W&B's own engine (the `sweeps` package) was the obvious choice and is not used: its last release is of 2022, it pins
numpy below 2 and can only be installed against its own requirements. Grid, random search and hyperband are a few
lines each. Bayesian search is not; it is Optuna's Gaussian process (maintained, takes runs under way into account),
asked as a pure function of the runs so far, so that Optuna keeps no state of its own. On a toy of this problem's
shape (method × β × islands, 15 runs) it found the optimum four times of four, Optuna's default sampler once.
"""
