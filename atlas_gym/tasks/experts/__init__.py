"""Longer programs of the tasks that are one file: one file each, or two of which one is imported."""
