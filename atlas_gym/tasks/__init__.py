"""What is posed: the tasks, their ids, the programs experts wrote, and templates with named constants.

In: an id, its parameters, a seed and a split. Out: the task that an evaluator scores programs on, and the words
that describe it. A task that one file cannot hold has a folder: `bandit`, `burgers`.
"""
