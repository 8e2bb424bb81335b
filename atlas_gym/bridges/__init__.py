"""Bridges to other projects' trainers, servers and formats; each module needs the extra that its docstring names.

In: their actions, rows and requests. Out: the environments' rewards and observations, in their words. Nothing below
imports from here.
"""
