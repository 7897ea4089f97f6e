"""Pipelines for other data, by YAML alone: stream, correct, audit, then compare with DuckDB.

    python benchmarks/other_data.py DATA_FOLDER [name ...]

DATA_FOLDER holds one folder per data set with a data.parquet. Everything is written to a
temporary home; nothing of the product's answers is used on DuckDB's side.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

ROOT = Path(__file__).resolve().parents[1]

SETS = {
    "d4_zeek_dns": (
        """
columns: {sip: string, rtt: double}
event_time: event_time
arrival_time: arrival_time
skew: PT1H
steps:
  rtt_by_sip:
    keys: [sip]
    window: {size: PT60S}
    measures: {n: count(*), answered: count(rtt), rtt_sum: sum(rtt)}
    slack: {fixed: PT10S}
""",
        "rtt_by_sip",
        ["sip"],
        """SELECT time_bucket(INTERVAL 60 SECOND, event_time) AS window_start, sip,
           count(*) AS n, count(rtt) AS answered, fsum(rtt) AS rtt_sum, fsum(abs(rtt)) AS scale
           FROM records GROUP BY ALL""",
    ),
    "d4_zeek_ssl": (
        """
columns: {sip: string, server_name: string, version: string, dport: long}
event_time: event_time
arrival_time: arrival_time
skew: PT1H
steps:
  last_server:
    kind: latest
    keys: [sip]
    every: PT10S
    columns: [server_name, version, dport]
    slack: {fixed: PT5S}
""",
        "last_server",
        ["sip"],
        """SELECT time_bucket(INTERVAL 10 SECOND, event_time) AS window_start, sip,
           max(event_time) AS event_time, count(*) AS n_records,
           arg_max(arrival_seq, (event_time, arrival_seq)) AS arrival_seq,
           arg_max_null(server_name, (event_time, arrival_seq)) AS server_name,
           arg_max_null(version, (event_time, arrival_seq)) AS version,
           arg_max_null(dport, (event_time, arrival_seq)) AS dport FROM records GROUP BY ALL""",
    ),
    "d5_ooo_umts": (
        """
columns: {device: string, rtt_ms: double}
event_time: event_time
arrival_time: arrival_time
steps:
  rtt_by_device:
    keys: [device]
    window: {size: PT0.5S, slide: PT0.1S}
    measures: {rtt: avg(rtt_ms), low: min(rtt_ms), high: max(rtt_ms)}
    slack: {fixed: PT0.1S}
""",
        "rtt_by_device",
        ["device"],
        """SELECT make_timestamptz(w * 100000) AS window_start, device, avg(rtt_ms) AS rtt,
           min(rtt_ms) AS low, max(rtt_ms) AS high, avg(abs(rtt_ms)) AS scale
           FROM (SELECT *, unnest(range(epoch_us(event_time) // 100000 - 4,
                 epoch_us(event_time) // 100000 + 1)) AS w FROM records) GROUP BY ALL""",
    ),
    "d1_aircraft_sites": (
        """
columns: {site: string}
event_time: event_time
arrival_time: arrival_time
steps:
  seen_since_new_year:
    keys: [site]
    window: {since: 2013-01-01T00:00:00Z, period: P1D}
    measures: {n: count(*)}
    slack: {fixed: PT2H}
""",
        "seen_since_new_year",
        ["site"],
        """SELECT time_bucket(INTERVAL 1 DAY, event_time) AS window_start, site, count(*) AS n,
           0 AS scale FROM records GROUP BY ALL""",
    ),
    "x_usgs_quakes": (
        """
columns: {net: string, mag: double, depth: double}
event_time: event_time
arrival_time: arrival_time
steps:
  strong:
    keys: [net]
    where: mag >= 1.5 AND depth IS NOT NULL
    window: {size: P1D}
    measures: {n: count(*), strongest: max(mag), energy: sum(mag * 1.5)}
    slack: {max_delay: {bound: P10D}}
""",
        "strong",
        ["net"],
        """SELECT time_bucket(INTERVAL 1 DAY, event_time) AS window_start, net, count(*) AS n,
           max(mag) AS strongest, fsum(mag * 1.5) AS energy, fsum(abs(mag * 1.5)) AS scale
           FROM records WHERE mag >= 1.5 AND depth IS NOT NULL GROUP BY ALL""",
    ),
}
MEASURES = {
    "d4_zeek_dns": (["n", "answered"], ["rtt_sum"]),
    "d4_zeek_ssl": (
        ["event_time", "arrival_seq", "server_name", "version", "dport", "n_records"],
        [],
    ),
    "d5_ooo_umts": (["low", "high"], ["rtt"]),
    "d1_aircraft_sites": (["n"], []),
    "x_usgs_quakes": (["n", "strongest"], ["energy"]),
}


def job(name: str, pipeline: str, environment: dict[str, str]) -> tuple[int, float, str]:
    """Run one job; exit status, seconds, its output."""
    started = time.monotonic()
    command = [sys.executable, str(ROOT / "spark_jobs" / f"{name}.py"), f"--job={name}"]
    done = subprocess.run(
        [*command, f"--pipeline={pipeline}", f"--run-id={name}"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, time.monotonic() - started, done.stdout + done.stderr


def compare(name: str, data: Path, home: Path) -> dict[str, int]:
    """Windows compared, missing, extra and different."""
    _, step, keys, truth = SETS[name]
    exact, near = MEASURES[name]
    sys.path[:0] = [str(ROOT / "include")]
    from penstock.config.catalog import read_pipeline
    from penstock.lake.history.balance import balance
    from penstock.lake.history.standing import answers_in_force
    from penstock.lake.storage.tables import Tables

    pipeline, _ = read_pipeline(home / "pipelines" / f"{name}.yaml")
    tables = Tables(str(home / "lake"), name)
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("answers", answers_in_force(tables, pipeline.spec(step)))
    con.execute(f"CREATE VIEW records AS SELECT * FROM '{data}'")
    con.execute(f"CREATE TABLE truth AS {truth}")
    differ = [f"a.{m} IS DISTINCT FROM t.{m}" for m in exact]
    differ += [
        f"(a.{m} IS NULL) <> (t.{m} IS NULL) OR abs(a.{m} - t.{m}) > 1e-9 * t.scale" for m in near
    ]
    by = " AND ".join(f"a.{k} = t.{k}" for k in ["window_start", *keys])
    row = con.execute(
        f"""SELECT count(*), count(*) FILTER (a.window_start IS NULL),
            count(*) FILTER (t.window_start IS NULL),
            count(*) FILTER (a.window_start IS NOT NULL AND t.window_start IS NOT NULL
                             AND ({" OR ".join(differ)}))
            FROM answers a FULL JOIN truth t ON {by}"""
    ).fetchone()
    pairs = con.execute("SELECT count(*) FROM records").fetchone()[0]
    kept = balance(tables, pipeline.spec(step))
    names = ("compared", "missing", "extra", "different")
    out = dict(zip(names, row, strict=True))
    return out | {"records": pairs, "received": kept.received, "late": kept.late,
                  "on_time": kept.on_time, "open": kept.open}  # fmt: skip


def main() -> int:
    """Run the data sets named, or all."""
    folder = Path(sys.argv[1]).resolve()
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        (home / "pipelines").mkdir()
        environment = dict(os.environ) | {
            "PENSTOCK_HOME": str(home),
            "PENSTOCK_PIPELINES": str(home / "pipelines"),
            "PYTHONPATH": f"{ROOT / 'include'}:{ROOT / 'plugins'}",
        }
        for name in sys.argv[2:] or SETS:
            head = f"source: {{files: {folder / name}, mode: bounded}}"
            (home / "pipelines" / f"{name}.yaml").write_text(head + SETS[name][0])
            seconds = {}
            for each in ("stream", "correct", "audit"):
                code, seconds[each], said = job(each, name, environment)
                if code:
                    print(f"{name}: {each} ended with {code}\n{said[-3000:]}")
                    return 1
            found = compare(name, folder / name / "data.parquet", home)
            bad += found["missing"] + found["extra"] + found["different"]
            times = {k: round(v, 1) for k, v in seconds.items()}
            print(name, json.dumps(found), json.dumps(times), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
