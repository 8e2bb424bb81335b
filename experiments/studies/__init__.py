"""Many runs: a study's grid (`plan`) or a sweep's search (`sweep`, W&B's own file format), run and collected.

In: a YAML file. Out: ordinary run folders, and their data and tables in the paper's shape.
"""
