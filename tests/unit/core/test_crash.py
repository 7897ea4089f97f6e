"""The switch that kills a process at a named point."""

import os
import signal
import subprocess
import sys
from pathlib import Path

CHILD = """
import sys
from penstock.core.crash import reached
print("ready", flush=True)
sys.stdin.read()
reached("a", "point")
"""


def test_of_processes_that_reach_a_point_at_the_same_moment_exactly_the_nth_dies(
    tmp_path: Path,
) -> None:
    for run in range(5):
        more = {
            "PENSTOCK_CRASH_TRACE": str(tmp_path / str(run)),
            "PENSTOCK_CRASH_AT": "a point:2",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        together, gate = os.pipe()
        children = [
            subprocess.Popen(
                [sys.executable, "-c", CHILD], env=os.environ | more, stdin=together,
                stdout=subprocess.PIPE, start_new_session=True,
            ) for _ in range(4)
        ]  # fmt: skip
        os.close(together)
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        os.close(gate)
        codes = sorted(child.wait(60) for child in children)
        for child in children:
            assert child.stdout is not None
            child.stdout.close()
        assert codes == [-signal.SIGKILL, 0, 0, 0]
