"""The commands around one run: `run`, its settings and its summary.

In: arguments, a configuration, a run's folder. Out: files in that folder, and text on the terminal.
"""
