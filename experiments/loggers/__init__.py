"""What watches a run: the names of its numbers, the console's table, and W&B.

In: what the loop reports to its observers. Out: lines and charts; a logger can never stop a run.
"""
