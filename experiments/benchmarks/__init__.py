"""Benchmarks: what evaluating, training and generating cost, beside what one would use instead.

In: nothing but the machine. Out: tables on the terminal; the figures that count stand in the documents.
"""
