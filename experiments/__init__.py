"""What a person runs: the command line, configurations, tables, figures, studies and benchmarks.

In: arguments and YAML files. Out: run folders, and what is made of them. `run` is the main job; `cli` its commands,
`studies` many runs, `report` and `loggers` what they show, `learners` other methods, `theory` and `benchmarks` stand
alone.
"""

import os

# Evaluators share the cores with torch: OpenMP threads that spin while they wait would slow both down many times
# over. The library reads this once, when torch is first imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
