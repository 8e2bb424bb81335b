"""Learning: preference pairs, EvoDPO with a gated reference, the ATLAS loop and its run store."""
