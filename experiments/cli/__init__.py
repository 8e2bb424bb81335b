"""The commands around one run: `run`, its plan before it starts (`--dry-run`), its summary and its export.

In: arguments, a configuration, a run's folder. Out: files in that folder, and text on the terminal. A plan's
counts (`workload`) are exact where the configuration decides, and an upper bound where the run does; its times
(`estimate`) are the counts divided by measured or assumed `rates`.
"""
