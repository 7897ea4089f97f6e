"""Fetch Delta's jars into this folder with the Ivy that Spark brings, and verify them.

Only the two that Spark needs: Delta's other dependencies are in Spark already. Run by bin/setup.
"""

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
GROUP = "io.delta"


def wanted() -> dict[str, str]:
    """Checksum of each jar, by file name."""
    lines = (FOLDER / "SHA256SUMS").read_text().splitlines()
    return {name: checksum for checksum, name in (line.split() for line in lines)}


def is_right(jar: Path, checksum: str) -> bool:
    """Whether a jar is there and undamaged."""
    return jar.exists() and hashlib.sha256(jar.read_bytes()).hexdigest() == checksum


def fetch(names: list[str], ivy: Path) -> None:
    """Let Spark resolve the jars into ``ivy``, without what they depend on."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .appName("fetch-jars")
        .config("spark.ui.enabled", "false")
        .config("spark.jars.ivy", str(ivy))
        .config("spark.driver.host", "localhost")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    try:
        for name in names:
            artifact, version = name.removesuffix(".jar").rsplit("-", 1)
            spark.sql(f"ADD JAR ivy://{GROUP}:{artifact}:{version}?transitive=false")
    finally:
        spark.stop()


def main() -> int:
    """0 when every jar is in place."""
    checksums = wanted()
    missing = [name for name, sha in checksums.items() if not is_right(FOLDER / name, sha)]
    if not missing:
        return 0
    with tempfile.TemporaryDirectory(prefix="penstock-ivy-") as ivy:
        try:
            fetch(missing, Path(ivy))
        except Exception as error:  # noqa: BLE001  whatever it was, the remedy is the same
            return fail(f"could not fetch {', '.join(missing)}: {first_line(error)}")
        for name in missing:
            found = next(Path(ivy).glob(f"cache/**/{name}"), None)
            if found is None or not is_right(found, checksums[name]):
                return fail(f"{name} was fetched with a wrong checksum, or not at all")
            fresh = FOLDER / f".{name}.new"
            shutil.copyfile(found, fresh)
            fresh.replace(FOLDER / name)
    return 0


def fail(problem: str) -> int:
    """Say what went wrong and the two ways out."""
    sys.stderr.write(
        f"set-up: {problem}.\n"
        "  Check the network (behind a proxy: JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=..."
        " -Dhttps.proxyPort=...') and call make again,\n"
        f"  or put the files into {FOLDER} by hand: they are Maven artifacts of group {GROUP}.\n"
    )
    return 1


def first_line(error: Exception) -> str:
    """The first line of an error's text."""
    return (str(error).strip().splitlines() or [repr(error)])[0]


if __name__ == "__main__":
    sys.exit(main())
