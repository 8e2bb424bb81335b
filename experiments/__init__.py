"""What a person runs: the command line, configurations, tables, figures, studies and benchmarks.

In: arguments and YAML files. Out: run folders, and what is made of them. `run` is the main job; `cli` its commands,
`studies` many runs, `report` and `loggers` what they show, `learners` other methods, `theory` and `benchmarks` stand
alone.
"""
