"""EvoDPO: one phase of tuning.

In: preference pairs (D_k) and a reference. Out: checkpoints (C_k) with their K̂L and Ŝ, the gate's decision (Eqs. 4 and
5) and the next reference. `phase` reads like Algorithm 1; `train` is TRL's DPO in packed passes. Where the pairs come
from lies below, in `data`; when a phase takes place is decided above, in `loop`. `callback` is the gate alone, for a
trainer of one's own.
"""
