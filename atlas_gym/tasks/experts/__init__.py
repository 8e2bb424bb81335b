"""Longer programs of the tasks that are one file: one file each, every file a candidate as it stands."""
