"""ATLAS-Burgers-v0: programs that write the loss of a physics-informed network for the viscous Burgers equation.

In: the constants of the task and a seed. Out: the error of the network that was trained on the program's loss. The
trusted process trains the network (`task`, `training`); the program, in its confined worker (`driver`), turns the
vectors of residuals and errors into a loss and the gradient of that loss.
"""
