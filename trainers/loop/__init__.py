"""The ATLAS loop (`atlas`) and the steps it calls: schedule, exploration, advisers, fine-tuning, probes.

In: a configuration and a run's folder. Out: a run in its store, which ends where it would have ended without
being stopped. Other methods are the same loop with other settings (`methods`).
"""
