"""What runs beside or around a candidate: the fork server, the worker, and the kernel's layers around it.

In: a program's text and fixed-size messages, as bytes. Out: bytes again, and how the worker ended. Nothing here
knows a score, a seed or a secret. It runs in fresh interpreters where no package's `__init__` does.
"""
