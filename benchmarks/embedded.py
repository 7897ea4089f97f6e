"""What embedded mode costs: until it is healthy, and while it has nothing to do.

    python benchmarks/embedded.py [--seconds 60]

Starts an instance in a scratch home, with one pipeline whose source stays empty: first without a
stream, then with it running. Memory is the proportional set size (shared pages counted once) of all
its processes, processor time is theirs over the seconds, in cores.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measuring
import psutil

from penstock.config.settings import Settings
from penstock.runtime.demo.airflow import Airflow
from penstock.runtime.embedded.airflow_environment import project_environment
from penstock.runtime.embedded.instance import Instance
from penstock.runtime.embedded.lifecycle import passwords
from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths

PIPELINE = """
source: {files: source}
columns: {key: string, value: double}
event_time: ts
steps:
  idle:
    keys: [key]
    window: {size: PT1M}
    measures: {n: count(*)}
    slack: {fixed: PT1M}
"""


def call(settings: Settings, *arguments: str) -> None:
    """The command, in the scratch home."""
    command = [sys.executable, "-m", "penstock", *arguments]
    subprocess.run(command, env=project_environment(settings), check=True, stdout=sys.stderr)


def processes(settings: Settings) -> list[psutil.Process]:
    """All processes of the instance: those that have its home in their environment or command."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except (psutil.Error, OSError):
            continue
        if any(str(settings.home) in word for word in words):
            found.append(process)
    return found


def idle(settings: Settings, seconds: float) -> tuple[int, float, float]:
    """Processes, GB of memory, and cores of processor time."""
    before = {p.pid: sum(p.cpu_times()[:2]) for p in processes(settings)}
    time.sleep(seconds)
    after = processes(settings)
    spent, memory = 0.0, 0
    for process in after:
        try:
            spent += sum(process.cpu_times()[:2]) - before.get(process.pid, 0.0)
            memory += process.memory_full_info().pss
        except psutil.Error:
            continue
    return len(after), memory / 1e9, spent / seconds


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--port", type=int, default=18_080)
    args = parser.parse_args()
    state, rows = measuring.machine(), []
    folder = Path(tempfile.mkdtemp(prefix="penstock-benchmark-"))
    (folder / "pipelines").mkdir()
    (folder / "home" / "source").mkdir(parents=True)
    (folder / "pipelines" / "idle.yaml").write_text(PIPELINE)
    settings = Settings(home=folder / "home", port=args.port, pipelines=folder / "pipelines")
    call(settings, "up")  # makes the database
    call(settings, "down")
    began = time.monotonic()
    call(settings, "up")
    healthy = time.monotonic() - began
    try:
        time.sleep(60)  # the maintenance that a new instance starts with
        rows.append(("without streams", *idle(settings, args.seconds)))
        instance = Instance(settings.home).read()
        assert instance is not None
        user = ("admin", passwords(settings)["admin"])
        airflow = Airflow(instance.url, user, settings.logs / "airflow")
        airflow.start("stream__idle")
        while control.status(StreamPaths(settings.streams, "idle")).state != "running":
            time.sleep(1)
        time.sleep(30)
        rows.append(("with one idle stream", *idle(settings, args.seconds)))
    finally:
        call(settings, "down")
    print(f"\n{state}\n\nhealthy {healthy:.1f} s after make up\n")
    table = [(what, n, f"{memory:.2f}", f"{cores:.1%}") for what, n, memory, cores in rows]
    print(measuring.markdown(("state", "processes", "GB", "of a core"), table))


if __name__ == "__main__":
    main()
