"""What runs beside or around a candidate: untrusted side and kernel layers. Bytes in, bytes out.

Imports the standard library and numpy only, because fork servers and workers import it.
"""
