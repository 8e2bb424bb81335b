"""The run store: one SQLite file in which everything is written before it is acted on, and its settings.

In: candidates, pairs, phases, decisions, calls. Out: the same again, for a run that is resumed and for reports.
"""
