"""The few bytes that cross between the trusted process, the fork server and a worker.

Standard library only, because the fork server and the workers import it too. Two lines of traffic:

* control: trusted process <-> fork server, fixed-size records over a stream socket. A worker's two pipe
  ends ride along with its SPAWN record as file descriptors.
* channel: trusted process <-> worker, two pipes. The trusted side writes plain bytes; each message of the
  worker is one tag byte and a payload whose size the trusted side already knows.

Nothing that a worker says is ever unpickled or parsed beyond these fixed layouts.
"""

import os
import struct

SPAWN, ARM, KILL = 1, 2, 3
"""Fork a worker; start its clock (seconds from now); kill it."""
REQUEST = struct.Struct("<BxxxId")
"""Trusted process -> fork server: operation, worker number, seconds (ARM only)."""
EXITED = struct.Struct("<4sIiBxxxdQ")
"""Fork server -> trusted process: EXIT_MARK, worker number, wait status, who killed it, CPU seconds, peak bytes."""
EXIT_MARK = b"exit"
"""Opens every report: a single stray byte in the stream is seen at the next one."""
NOT_KILLED, KILLED_BY_WATCHDOG, KILLED_ON_REQUEST = KILLERS = 0, 1, 2
"""Whether the fork server had a hand in a worker's end."""
FORK_FAILED = -1
"""Wait status that stands for a worker that could not be forked."""
WORKER_NOT_READY = 97
"""Exit code of a worker that failed before it let the program in: a fault of ours, not the program's."""
LENGTH = struct.Struct("<I")
"""Both ways on the control socket, once each at the start: length of the JSON text that follows."""
GREETING_BYTES = 2**20
"""The longest JSON text that either side takes."""

START = struct.Struct("<IIiIII")
"""Trusted process -> worker, once: memory in MiB, CPU seconds, core (-1: any), error characters, lengths of
the entry function's name and of the program; the two texts follow in UTF-8."""
READY = struct.Struct("<I")
"""Worker's first message: every layer is on, the program comes next; its process id."""
DATA, ERROR = 0, 255
"""Tags of a worker's messages."""
ERROR_HEAD = struct.Struct("<BH")
"""After an ERROR tag: kind (an index into ERROR_KINDS) and the length of the text in bytes."""
ERROR_KINDS = ("error", "invalid", "memory", "violation")
"""What a worker may claim about its failure. Only a hint: no claim brings a score."""


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Write all of `data`, however many calls it takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
