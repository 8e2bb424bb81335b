"""The commands around one run: `run`, what it would ask for (`--dry-run`), its summary and its export.

In: arguments, a configuration, a run's folder. Out: files in that folder, and text on the terminal.
"""
