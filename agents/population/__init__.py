"""What has been written so far: candidates, the islands they live on, their clusters, and which choices paid.

In: candidates, one at a time. Out: the parent of the next proposal, and where it is likely to pay.
"""
