"""What processes and descriptors there are: for tests that nothing is left behind."""

import os
import time
from pathlib import Path


def descendants(pid: int | None = None) -> set[int]:
    """The process ids of everything below `pid` (default: this process)."""
    children: dict[int, set[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), set()).add(int(entry.name))
    found: set[int] = set()
    pending = [os.getpid() if pid is None else pid]
    while pending:
        new = children.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def alive(pids: set[int]) -> set[int]:
    """Those of `pids` that run (a dead process that nobody has collected does not)."""
    running = set()
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z":
            running.add(pid)
    return running


def die_out(pids: set[int], patience_s: float = 10.0) -> bool:
    """Whether all of `pids` end within the given time."""
    deadline = time.monotonic() + patience_s
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pids)


def open_descriptors() -> set[str]:
    """This process's open descriptors."""
    return set(os.listdir("/proc/self/fd"))
