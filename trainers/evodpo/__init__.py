"""EvoDPO: one phase of tuning.

In: pairs (D_k) and a reference. Out: the policies that may be promoted (C_k), their K̂L, the gate's decision (Eqs. 4
and 5) and the next reference. Training runs in this process, or is sent out to several (`launch`). What the pairs are
and where they come from lies below, in `data`; when a phase takes place is decided above, in `loop`.
"""
