"""`python -m atlas_gym`: check, doctor, evaluate, list, new-task and serve, with the base dependencies alone.

In: arguments. Out: text on the terminal, and an exit status.
"""
