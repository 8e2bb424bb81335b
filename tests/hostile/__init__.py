"""Programs that try to cheat or to do harm, as data.

`catalogue` holds the attacks, written once for every environment; a `Seat` says how a program of one
environment looks; a `Scene` is what there is to be harmed, and tells afterwards whether it was. No attack is
marked as succeeded by its own word alone: files, sockets and processes that only the scene knows, a phrase
that only a successful attack can speak, and a score above the honest one are the evidence.

The attacks are bounded (a few children, a few hundred MiB, one file), because the same suite also runs
without confinement, to show that it can succeed.
"""
