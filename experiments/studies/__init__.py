"""Comparisons over seeds.

    plan        a grid of tasks × arms × seeds, from a YAML file
    scheduler   its runs, each in a process of its own, resumed where they were stopped
    results     what they came to: a row a run, paired differences with intervals, one picture
    exam        what a policy writes by itself on instances that no run had

`atlas study PLAN` does the first three, `python -m atlas_gym.experiments.studies.exam RUN …` the last, and
`….endpoints RUN …` says how far policies went.
"""
