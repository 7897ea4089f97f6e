"""Run inside a mount namespace: ingest on a full disk, then on a read-only one, then freely.

unshare --map-root-user --mount python -m tests.unit.bad_input.cramped FOLDER
"""

import json
import subprocess
import sys
from pathlib import Path

from tests.gates import Gate, T

FILES, EACH = 12, 500


def attempt(gate: Gate) -> str:
    """What went wrong; empty: nothing did."""
    try:
        gate.take()
    except Exception as failed:  # noqa: BLE001  any: it is what is asked for
        return f"{type(failed).__name__}: {failed}"
    return ""


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def main(home: Path) -> None:
    """Prints one JSON object."""
    gate = Gate(home, "jsonl")
    lake = home / "lake"
    lake.mkdir()
    mount("-t", "tmpfs", "-o", "size=4m", "cramped", str(lake))
    for number in range(FILES):
        if number == 1:
            gate.take()  # there are tables
        record = {"event_time": T, "site": f"site {number}", "delay": 1.5, "more": "m" * 50}
        gate.write(f"{number:02}.jsonl", (json.dumps(record) + "\n") * (EACH - 1) + "no\n")
    said = {}
    for room in (0, 10_000, 30_000):
        ballast = lake / "ballast"
        free = int(subprocess.check_output(["df", "-B1", "--output=avail", lake]).split()[-1])
        ballast.write_bytes(b"\0" * max(0, free - room))
        said[f"full, {room} bytes left"] = attempt(gate)
        ballast.unlink()
    mount("-o", "remount,ro", str(lake))
    said["tables read-only"] = attempt(gate)
    mount("-o", "remount,rw", str(lake))
    mount("--bind", str(gate.home / "live"), str(gate.home / "live"))
    mount("-o", "remount,ro,bind", str(gate.home / "live"))
    said["source read-only"] = attempt(gate)
    accepted, refused = gate.conserved()
    print(json.dumps({"said": said, "accepted": accepted, "refused": refused}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
