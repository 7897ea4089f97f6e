"""``python -m tests.archive``: the classes of Spark, parsed once for every JVM of the tests.

A JVM spends half its start, and of its first query, on 17,000 classes: reading, checking,
linking. Java's class data sharing keeps them in a file. Measured (2 cores, Spark 4.2.0, Java 17):
a session and its first audit take 16 s of CPU instead of 25; to make the file takes 60 to 80.
A file that fits neither this Java nor these jars is not used.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark.jsa"
QUIET = "-Xlog:cds=off -Xlog:class+path=off"
"""A JVM with other paths goes without the file, and need not say so."""


def options() -> dict[str, str]:
    """What the JVMs of Spark get by the environment; nothing, where the file was not made."""
    made = {"SPARK_SUBMIT_OPTS": f"-XX:SharedArchiveFile={ARCHIVE} {QUIET}"}
    return made if ARCHIVE.exists() and " " not in str(ARCHIVE) else {}


def loaded(classes: Path, home: Path) -> list[str]:
    """Stream and audit a little under Spark; returns the command of its JVM.

    Args:
        classes: gets the names of the classes that the JVM loads.
        home: an empty folder.
    """
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:DumpLoadedClassList={classes}"
    from pyspark import SparkContext

    from penstock.config.settings import Settings
    from penstock.spark.session import configuration, open_session
    from tests.forgery import INTERVAL, Audit
    from tests.spark.conftest import flow, make_scene, python_path, write_files

    os.environ["PYTHONPATH"] = python_path()
    scene = make_scene(home)
    write_files(home / "live", flow(400), 200)
    scene.begin()
    lake = scene.lake("hourly")
    lake.ingest()
    with open_session(
        "archive", configuration(Settings().jars, master="local[2]", memory="1g")
    ) as spark:
        process = SparkContext._gateway.proc
        command = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
        scene.answer(spark, blocks=1_000)
        assert Audit(spark, lake.tables, lake.pipeline, lake.clock).comparisons(INTERVAL)
    process.stdin.close()
    process.wait()
    return command


def main() -> None:
    """Make the file, all at once."""
    with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
        classes, made = Path(folder) / "classes", Path(folder) / ARCHIVE.name
        command = loaded(classes, Path(folder) / "home")
        paths = command[command.index("-cp") + 1]
        subprocess.run(
            [command[0], "-Xshare:dump", "-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=error",
             f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={made}", "-cp", paths],
            check=True,
        )  # fmt: skip
        made.replace(ARCHIVE)


if __name__ == "__main__":
    main()
