"""A stream host without Spark for the tests: beats, and ends as its argument says.

Each line it appends to ``starts`` is one start; ``alive`` is locked to catch a second one.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from penstock.runtime.streams.heart import Heart
from penstock.runtime.streams.paths import StreamPaths


def main(folder: str, mode: str) -> int:  # noqa: C901, PLR0912  one branch a way to end
    home = Path(folder)
    starts = home / "starts"
    before = len(starts.read_text().splitlines()) if starts.exists() else 0
    with starts.open("a") as file:
        file.write(f"{os.getpid()}\n")
    if mode == "silent":  # alive, but never says so
        time.sleep(600)
    if mode == "dies":
        print("no such table")
        return 3
    with (home / "alive").open("w") as alive, Heart(StreamPaths(home, "s"), period=0.05) as heart:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        heart.beat(step="per_site", block=before)
        if mode in {"starts", "starts-and-dies"}:  # whatever it does, it seals nothing
            while not heart.wait(0.3) and mode == "starts":
                heart.beat(received=7)
            raise ValueError("no worker came")
        if mode == "hangs-on-its-way-out":
            heart.fail("StreamFailedError: the real cause")
            time.sleep(600)
        heart.works(sealed=0 if mode == "idles-and-dies" else 1)
        if mode in {"seals-and-dies", "idles-and-dies"}:
            heart.wait(0.3)
            raise ValueError("died")
        if mode == "goes-on-without-one":
            heart.beat(stands_still="per_site stands still: a sum")
        if mode == "ends":
            return 0
        if mode == "terminal":
            heart.beat(error="the pipeline has no columns")
            return 20
        if mode == "raises":
            raise ValueError("bad block")
        if mode == "dies-twice" and before < 2:
            os._exit(1)
        if mode == "grandchild":  # leaves the group and the session, as Spark's workers do
            child = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
            (home / "grandchild").write_text(str(child.pid))
        if mode == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        while not heart.wait(0.1):
            heart.beat(host_block=before)
        (home / "graceful").write_text(str(heart.stop_reason))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
