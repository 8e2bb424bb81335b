"""`python -m atlas_gym`: list, evaluate, gallery, doctor and serve, with the base dependencies alone.

In: arguments. Out: text on the terminal, and an exit status.
"""
