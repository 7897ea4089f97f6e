"""How fast records go through the door: source files to sealed blocks, no JVM.

    python benchmarks/ingest.py [--records 1000000]

Mars' records of 20 columns (see step.py) in files of 50,000: the three columns that a step reads
are declared, the rest is kept as text. Parquet, JSON lines and CSV of the same records.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import measuring
import pyarrow.csv as pc
import pyarrow.parquet as pq
import step

EACH = 50_000


def write_as(kind: str, source: Path, folder: Path) -> None:
    """The same records in another format."""
    folder.mkdir()
    for path in sorted(source.iterdir()):
        out = folder / f"{path.stem}.{kind}"
        if kind == "parquet":
            out.write_bytes(path.read_bytes())
        elif kind == "csv":
            pc.write_csv(pq.read_table(path), out)
        else:
            frame = pq.read_table(path).to_pandas()
            frame.to_json(out, orient="records", lines=True, date_format="iso", date_unit="us")


def reading(kind: str) -> str:
    """The pipeline file for a format."""
    return step.MARS.yaml.replace("files: source", f"files: source, format: {kind}")


def main() -> None:
    """Run and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--reps", type=int, default=3)
    args = parser.parse_args()
    state, rows, groups = measuring.machine(), [], {}
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "made")
        step.generate(made, args.records, 100, args.records / 3_333, args.records // EACH)
        for kind in ("parquet", "jsonl", "csv"):
            found = []
            for rep in range(args.reps + 1):
                home = Path(scratch, f"{kind}{rep}")
                home.mkdir()
                write_as(kind, made, home / "source")
                pipeline, tables = measuring.pipeline_in(home, reading(kind))
                began = time.monotonic()
                assert measuring.ingest(tables, pipeline, home) == args.records
                found.append(time.monotonic() - began)
            middle = statistics.median(found[1:])
            rows.append(
                (
                    kind,
                    f"{args.records / middle:,.0f}",
                    f"{min(found[1:]):.2f}-{max(found[1:]):.2f}",
                )
            )
            groups[kind] = {"ingest": args.records / middle / 1e3}
    print(f"\n{args.records:,} records; {state}\n")
    print(measuring.markdown(("format", "records/s", "seconds"), rows))
    measuring.bars("ingest", "Ingest: source files to sealed blocks", "k records/s", groups)


if __name__ == "__main__":
    main()
