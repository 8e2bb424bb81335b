"""Loss strategies written by hand, one file each; every file is a candidate as it stands.

The first line of a file's docstring is its title in the gallery. Constants are tuned, where it says so, for the
default parameters.
"""
