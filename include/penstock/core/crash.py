"""Named points at which a test may kill a process; nothing at all otherwise.

``PENSTOCK_CRASH_TRACE=FILE`` arms them: each point reached is appended to the file, with the lines
of penstock that led there. ``PENSTOCK_CRASH_AT=POINT:N`` also kills with -9 when the file holds
the point N times: the process group of the session's leader (a Spark driver and its JVM, if it was
started in a session of its own; on a node of a cluster, the worker and its executors), then the
process's own (Spark's Python workers have another one). ``PENSTOCK_CRASH_SIGNAL=SIGSTOP`` has them
stand still there instead.
``PENSTOCK_CRASH_SYNCS=FILE`` notes what is synced, for a test that lets the rest be lost.
"""

import os
from pathlib import Path

TRACE = os.environ.get("PENSTOCK_CRASH_TRACE")
SYNCS = os.environ.get("PENSTOCK_CRASH_SYNCS")
AT, _, TIMES = os.environ.get("PENSTOCK_CRASH_AT", "").rpartition(":")

if TRACE is None:

    def reached(*point: str) -> None:
        """Do nothing."""

else:
    import inspect
    import signal
    import traceback

    ROOT = Path(__file__).resolve().parents[1]
    SIGNAL = signal.Signals[os.environ.get("PENSTOCK_CRASH_SIGNAL", "SIGKILL")]

    def reached(*point: str) -> None:
        """Note that a point was reached; die, or stop, there if that was asked for."""
        name, trace = " ".join(point), Path(str(TRACE))
        stack = list(traceback.walk_stack(inspect.currentframe()))[1:]
        frames = [(Path(frame.f_code.co_filename), line) for frame, line in stack]
        calls = [f"{p.relative_to(ROOT)}:{n}" for p, n in frames if p.is_relative_to(ROOT)]
        with trace.open("ab") as file:
            file.write(("\t".join([name, *calls]) + "\n").encode())
            file.flush()
            own = file.tell()  # workers reach it at the same moment: each counts up to its line
        if name == AT:
            lines = trace.read_bytes()[:own].decode().splitlines()
            if sum(line.split("\t")[0] == name for line in lines) == int(TIMES):
                os.killpg(os.getsid(0), SIGNAL)
                os.killpg(0, SIGNAL)


if SYNCS is None:

    def lasts(at: int, path: Path) -> None:
        """Do nothing."""

else:
    import json

    def lasts(at: int, path: Path) -> None:
        """Note what of a file or folder that was synced is on the disk now."""
        names = sorted(os.listdir(at)) if path.is_dir() else None
        status = os.fstat(at)
        line = {"path": str(path), "inode": status.st_ino, "size": status.st_size, "names": names}
        with Path(str(SYNCS)).open("ab", buffering=0) as file:
            file.write((json.dumps(line) + "\n").encode())
