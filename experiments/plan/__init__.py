"""`python -m experiments.run --config X --dry-run`: what a run would do, and what it would cost.

Counting (`workload`) is exact where the configuration decides, and an upper bound where the run does (a phase
may be skipped, a program may be known already). Time (`estimate`) is the work divided by rates (`rates`): those
measured with the embedded model on two CPU cores, or assumptions about a GPU, printed beside the result.
Nothing is loaded, started or contacted.
"""
