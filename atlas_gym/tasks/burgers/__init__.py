"""ATLAS-Burgers-v0: programs that write the loss of a physics-informed network for the viscous Burgers
equation.

The trusted process trains the network; the program, in its confined worker, turns the vectors of residuals
and errors into a loss and the gradient of that loss. See `env` for the environment, `task` for the split.
"""
