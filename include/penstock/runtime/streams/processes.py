"""Finding and ending everything that was started for one stream or job (Linux: reads /proc).

A driver's JVM outlives its Python by about 2 s, and Spark's Python workers leave the process
group. So what belongs together is told by a mark in its environment, which children inherit;
a process number that was given to a stranger meanwhile can never be hit.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

MARK = "PENSTOCK_MARK"
LOOKS = 2


def marked(mark: str) -> set[int]:
    """Living processes of this user with ``PENSTOCK_MARK=<mark>`` in their environment."""
    return {pid for pid, found in marks().items() if found == mark}


def marks() -> dict[int, str]:
    """The mark of each living process of this user that has one."""
    wanted, found = f"{MARK}=".encode(), {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                for line in (entry / "environ").read_bytes().split(b"\0"):
                    if line.startswith(wanted):
                        found[int(entry.name)] = os.fsdecode(line.removeprefix(wanted))
    return found


def kill_marked(mark: str, spared: set[int], patience: float = 10.0) -> int:
    """SIGKILL all marked processes but ``spared``, again until none is left; how many there were.

    Done when two looks in a row find none: a child is not seen while it is being forked, nor for
    an instant within exec. Gives up after ``patience`` seconds: a process in an uninterruptible
    wait cannot be killed, and the driver's lock still keeps a second one out.
    """
    until = time.monotonic() + patience
    killed: set[int] = set()
    clean = 0
    while clean < LOOKS and time.monotonic() < until:
        left = marked(mark) - spared
        clean = 0 if left else clean + 1
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= left
        time.sleep(0.02)
    return len(killed)
