"""Comparisons over seeds.

    plan        a grid of tasks × arms × seeds, from a YAML file
    scheduler   its runs, each in a process of its own, resumed where they were stopped
    results     what they came to: a row a run, paired differences with intervals, one picture
    endpoints   how far a policy went, and how near it is to lines that are known to be good

`atlas study PLAN` does the first three, `python -m atlas_gym.experiments.studies.endpoints RUN …` the last.
"""
