"""EvoDPO: D_k and a reference in; the candidate set C_k, K̂L, Eqs. 4 and 5 and the next reference out.

Training runs in this process, or is sent out to several (`launch`). What the pairs are and where they come from
lies below, in `data`; when a phase takes place is decided above, in `loop`.
"""
