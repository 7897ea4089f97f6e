"""Two pipelines over the flights of 2013, ``fixed`` and ``quantile``, side by side.

    PYTHONPATH=include .venv/bin/python benchmarks/two_slacks.py [HOME]

History and stream of both, correction, audit, all without Airflow; then ``penstock show`` puts them
beside each other. HOME is kept; without it a temporary one is used.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import measuring
from other_data import ROOT, job

from penstock.runtime.demo.flights import write_flights

FIXED = "slack: {fixed: PT2H}"
QUANTILE = """slack: {quantile: {}}
    quality: {epsilon: 0.05, delta: 0.05}"""
NAMES = {"flights": FIXED, "flights_quantile": QUANTILE}
JOBS = ("preload", "stream", "correct", "audit")


def main() -> int:
    """Run both, print the comparison, keep the picture."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(sys.argv[1] if len(sys.argv) > 1 else scratch).resolve()
        pipelines = home / "pipelines"
        pipelines.mkdir(parents=True, exist_ok=True)
        write_flights(home / "demo" / "flights")
        text = (ROOT / "include" / "pipelines" / "flights.yaml").read_text()
        start, end = text.index("    slack: {quantile"), text.index("  sightings_per_plate")
        after = text.index("correction:")
        for name, slack in NAMES.items():
            body = text[:start] + f"    {slack}\n" + text[after:]
            (pipelines / f"{name}.yaml").write_text(body)
        assert start < end < after
        environment = dict(os.environ) | {
            "PENSTOCK_HOME": str(home),
            "PENSTOCK_PIPELINES": str(pipelines),
            "PYTHONPATH": f"{ROOT / 'include'}:{ROOT / 'plugins'}",
            "COLUMNS": "150",
        }
        print(measuring.machine())
        for name in NAMES:
            for each in JOBS:
                code, seconds, said = job(each, name, environment)
                print(f"{each}__{name}: exit status {code}, {seconds:.1f} s", flush=True)
                if code:
                    print(said[-3_000:])
                    return 1
        first, second = NAMES
        command = [sys.executable, "-m", "penstock", "show", first, "--beside", second]
        subprocess.run(command, env=environment, check=True)
        picture = next((home / "docs").glob(f"**/beside-{second}-*.svg"), None)
        if picture is not None:
            shutil.copy(picture, measuring.PICTURES / "two-slacks.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
