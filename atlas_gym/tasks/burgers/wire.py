"""The layout of the messages between the trusted side and the driver; standard library only, both import it.

    header                      -> counts                  LOADED <- program loaded in every replica
    per replica                 -> x | t | nu
    per epoch and replica       -> residuals | initial errors | boundary errors | u | u_x
                                <- loss | its gradient with respect to the first three
    the last two once more at the held-out points, for the program's own loss there

All numbers but the header's are float64 in the machine's byte order: both ends are on one machine.
"""

import struct

HEADER = struct.Struct("<6I")
"""Replicas, collocation, initial and boundary points, epochs, seed of the global random generators."""
LOADED = b"\1"
"""Sent once the program is loaded in every replica."""
