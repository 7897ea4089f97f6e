"""The door: every record received is in events or in quarantine, with its reason and place."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import compute as pc

from penstock.lake.ingest import door as door_module
from penstock.lake.log.blocks import HISTORY
from tests.answers import blocks_of
from tests.doubles import Killed, RisingClock, deadly_commits, dies_at
from tests.gates import Gate, T
from tests.streams import ARROW, at, disordered, us, write_jsonl, write_parquet


def test_json_lines_each_reason_with_its_line(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.write("a.jsonl", "\n".join([
        f'{{"event_time": "{T}", "site": "x", "delay": 1, "more": {{"k": [1]}}}}',
        "",
        "not json",
        "[1, 2]",
        f'{{"event_time": "{T}", "site": "x", "delay": "much"}}',
        '{"site": "x"}',
        f'{{"event_time": "{T}", "delay": 1}}',
        '{"event_time": "2024-03-02T00:05:00.000001Z", "site": "x"}',
        '{"event_time": "2024-03-02T00:05:00Z", "site": "x"}',
        '{"event_time": "2023-12-31T23:59:59Z", "site": "x"}',
        f'{{"event_time": "{T}", "site": "x", "delay": NaN}}',
        f'{{"event_time": "{T}", "site": "x", "delay": -Infinity}}',
        '{"event_time": "noon", "site": "x"}',
        f'{{"event_time": "{T}", "site": ""}}',
    ]) + "\n")  # fmt: skip
    assert gate.take() == 13
    assert [(s, r, d.split(":")[0], p) for s, r, d, p in gate.refused()] == [
        (1, "malformed", "not JSON", "live/a.jsonl: line 3"),
        (2, "malformed", "not a JSON object", "live/a.jsonl: line 4"),
        (3, "not castable", "delay", "live/a.jsonl: line 5"),
        (4, "missing event time", "event_time", "live/a.jsonl: line 6"),
        (5, "missing key", "site", "live/a.jsonl: line 7"),
        (6, "event time ahead of arrival", "event_time", "live/a.jsonl: line 8"),
        (8, "event time before not_before", "event_time", "live/a.jsonl: line 10"),
        (9, "NaN or infinity", "delay", "live/a.jsonl: line 11"),
        (10, "NaN or infinity", "delay", "live/a.jsonl: line 12"),
        (11, "not castable", "event_time", "live/a.jsonl: line 13"),
        (12, "missing key", "site", "live/a.jsonl: line 14"),
    ]
    first, edge = gate.rows("events")
    assert (first["arrival_seq"], first["extra"]) == (0, '{"more":{"k": [1]}}')
    assert edge["arrival_seq"] == 7, "as late as skew allows is accepted"
    raw = {r["arrival_seq"]: r["raw"] for r in gate.rows("quarantine")}
    assert raw[1] == "not json"
    assert raw[4] == '{"site": "x"}'


def test_csv_each_reason_with_its_line(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "csv")
    gate.write("a.csv", "\ufeffevent_time,site,delay,more\r\n"
               f'{T},x,1.5,"a, b"\r\n'
               f"{T},x,1.5\r\n"
               f"{T},x,abc,\r\n"
               "\r\n"
               f"{T},,1,\r\n"
               f'{T},"say ""hi""",1,z\r\n')  # fmt: skip
    assert gate.take() == 5
    assert gate.refused() == [
        (1, "malformed", "3 fields where the header has 4", "live/a.csv: line 3"),
        (2, "not castable", "delay", "live/a.csv: line 4"),
        (3, "missing key", "site", "live/a.csv: line 6"),
    ]
    first, quoted = gate.rows("events")
    assert (first["extra"], first["delay"]) == ('{"more":"a, b"}', 1.5)
    assert quoted["site"] == 'say "hi"'


def test_one_bad_line_of_csv_spoils_one_record(tmp_path: Path) -> None:
    good = f"{T},x,1\n".encode()
    for i, line in enumerate([
        f'{T},"open,1\n'.encode(),
        f"{T},\xff,1\n".encode("latin-1"),
        f"{T},a\rb,1\n".encode(),
        f"{T},{'x' * 140_000},1\n".encode(),
    ]):  # fmt: skip
        gate = Gate(tmp_path / str(i), "csv")
        gate.write("a.csv", b"event_time,site,delay\n" + good + line + good)
        assert gate.take() == 3, line[:40]
        assert [r["arrival_seq"] for r in gate.rows("events") if r["site"] == "x"] == [0, 2]


def test_csv_whose_first_line_is_blank_loses_no_record(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "csv")
    gate.write("a.csv", f"\nevent_time,site,delay\n{T},x,1\n")
    received = gate.take()
    assert received == len(gate.rows("events")) + len(gate.rows("quarantine")) >= 1


def test_json_text_that_is_not_unicode_is_one_refused_record(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.write("a.jsonl", f'{{"event_time": "{T}", "site": "\\ud800"}}\n'
               f'{{"event_time": "{T}", "site": "x"}}\n')  # fmt: skip
    assert gate.take() == 2
    assert [r["site"] for r in gate.rows("events")] == ["x"]
    assert len(gate.rows("quarantine")) == 1


def test_parquet_each_reason_with_its_row(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "parquet")
    rows = disordered(4, seed=1, late_share=0)
    rows[1]["site"] = None
    rows[2]["delay"] = float("nan")
    write_parquet(tmp_path / "live" / "a.parquet", rows)
    (tmp_path / "live" / "b.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "live" / "_c.parquet").write_bytes(b"hidden")
    assert gate.take() == 5
    found = gate.refused()
    assert [(s, r, p) for s, r, _, p in found] == [
        (1, "missing key", "live/a.parquet: row 2"),
        (2, "NaN or infinity", "live/a.parquet: row 3"),
        (4, "unreadable", "live/b.parquet"),
    ]
    assert found[2][2].startswith("unreadable: ArrowInvalid")
    assert gate.take() == 0, "a broken file is refused once"


def test_two_columns_from_one_of_the_source_are_judged_each(tmp_path: Path) -> None:
    columns = {"site": "string", "delay": {"type": "double", "from": "v"},
               "bags": "long", "text": {"type": "string", "from": "v"}}  # fmt: skip
    gate = Gate(tmp_path, "jsonl", columns=columns)
    gate.write("a.jsonl", f'{{"event_time": "{T}", "site": "x", "v": "much"}}\n')
    assert gate.take() == 1
    assert [r[1] for r in gate.refused()] == ["not castable"]


def test_a_column_named_as_the_event_time_keeps_its_own_verdict(tmp_path: Path) -> None:
    columns = {"site": "string", "delay": "double", "bags": "long",
               "when_text": {"type": "string", "from": "event_time"}}  # fmt: skip
    gate = Gate(tmp_path, "jsonl", columns=columns)
    gate.write("a.jsonl", '{"event_time": "noon", "site": "x"}\n')
    gate.take()
    assert [r[1:3] for r in gate.refused()] == [("not castable", "event_time")]


def test_an_arrival_column_is_the_ingest_time(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl", arrival_time="came")
    gate.write("a.jsonl", f'{{"event_time": "{T}", "site": "x", "came": "2024-03-01T12:01:00Z"}}\n'
               f'{{"event_time": "{T}", "site": "y"}}\n'
               f'{{"event_time": "{T}", "site": "z", "came": "2024-03-01T11:50:00Z"}}\n'
               )  # fmt: skip
    gate.take()
    assert [r["ingest_time"] for r in gate.rows("events")] == [at("12:01"), gate.clock.now()]
    assert [r[1] for r in gate.refused()] == ["event time ahead of arrival"]


def test_a_repeated_id_is_refused_within_the_horizon_also_after_a_restart(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl", columns={"site": "string", "delay": "double", "bags": "long",
                "uid": "long"}, id={"column": "uid", "horizon": "PT1H"})  # fmt: skip

    def send(name: str, *ids: Any) -> list[str]:
        write_jsonl(
            tmp_path / "live" / name, [{"event_time": T, "site": "x", "uid": i} for i in ids]
        )
        before = len(gate.rows("quarantine"))
        gate.take()
        return [r["reason"] for r in gate.rows("quarantine")][before:]

    assert send("0.jsonl", 1, 2, 1) == ["repeated id"]
    assert send("1.jsonl", 2, 3) == ["repeated id"]
    gate.clock.move(timedelta(minutes=59))
    assert send("2.jsonl", 3, 4) == ["repeated id"]
    gate.clock.move(timedelta(minutes=2))
    assert send("3.jsonl", 1, None) == ["missing key"], "the first 1 is older than the horizon"
    assert send("4.jsonl", 4) == ["repeated id"]


@pytest.mark.parametrize("deaths", range(8))
def test_a_repeated_id_is_decided_again_the_same_after_a_kill(tmp_path: Path, deaths: int) -> None:
    gate = Gate(tmp_path, "jsonl", columns={"site": "string", "delay": "double", "bags": "long",
                "uid": "long"}, id={"column": "uid", "horizon": "PT1H"})  # fmt: skip
    for name, ids in (("0", [1, 2]), ("1", [2, 3, 3])):
        write_jsonl(tmp_path / "live" / f"{name}.jsonl",
                    [{"event_time": T, "site": "x", "uid": i} for i in ids])  # fmt: skip
        with deadly_commits(dies_at(deaths)):
            try:
                gate.take()
            except Killed:
                gate.take()
    assert [r["uid"] for r in gate.rows("events")] == [1, 2, 3]
    assert [r["arrival_seq"] for r in gate.rows("quarantine")] == [2, 4]


def test_blocks_are_whole_and_in_order_with_their_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "BLOCK", 1_024)
    gate = Gate(tmp_path, "parquet")
    rows = disordered(2_500, seed=3)
    write_parquet(tmp_path / "live" / "a.parquet", rows)
    gate.clock.move(timedelta(days=1))
    assert gate.take() == 2_500
    blocks = gate.rows("blocks")
    spans = [(b["first_seq"], b["last_seq"]) for b in blocks]
    assert spans == [(0, 1023), (1024, 2047), (2048, 2499)]
    newest = None
    for block in blocks:
        part = [r["event_time"] for r in rows[block["first_seq"] : block["last_seq"] + 1]]
        greatest = 0
        for t in part:
            greatest = max(greatest, 0 if newest is None else us(newest - t))
            newest = t if newest is None else max(newest, t)
        assert (block["t_max"], block["lateness_us"]) == (max(part), greatest)
    assert len(blocks_of(gate.tables, gate.pipeline)) == 3


def test_a_bounded_source_ends_once_and_a_live_one_falls_idle_once(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "b", "parquet", source={"mode": "bounded"})
    write_parquet(tmp_path / "b" / "live" / "a.parquet", disordered(3, seed=1))
    door = gate.door()
    assert [door.work() for _ in range(3)] == [3, 0, -1]
    assert door.ended
    assert gate.take() == 0
    assert [b["kind"] for b in gate.rows("blocks")] == ["data", "end"]
    live = Gate(tmp_path / "l", "parquet", source={"idle_after": "PT30S"})
    write_parquet(tmp_path / "l" / "live" / "a.parquet", disordered(3, seed=1))
    assert live.take() == 3
    live.clock.move(timedelta(seconds=29))
    assert live.take() == 0
    assert len(live.rows("blocks")) == 1
    live.clock.move(timedelta(seconds=1))
    live.take()
    live.clock.move(timedelta(hours=1))
    live.take()
    assert [b["kind"] for b in live.rows("blocks")] == ["data", "idle"]


def test_history_in_intervals_takes_no_record_twice(tmp_path: Path) -> None:
    history = {"files": str(tmp_path / "history"), "format": "parquet"}
    gate = Gate(tmp_path, "parquet", history=history)
    rows = disordered(300, seed=5, apart=60)
    rows[7]["site"] = None
    rows[9]["event_time"] = None
    write_parquet(tmp_path / "history" / "a.parquet", rows[:150], ARROW)
    write_parquet(tmp_path / "history" / "b.parquet", rows[150:], ARROW)
    spans = [("01:00", "02:00"), ("01:30", "03:00"), ("00:00", "01:10")]
    wanted = set()
    for low, high in spans:
        gate.take(HISTORY, us(at(low)), us(at(high)))
        wanted |= {i for i, r in enumerate(rows)
                   if r["event_time"] is None or at(low) <= r["event_time"] < at(high)}  # fmt: skip
        assert received(gate) == len(wanted)
    assert gate.take(HISTORY) == 300 - len(wanted), "the rest, once"
    assert gate.take(HISTORY) == 0
    assert received(gate) == 300
    times = [r["event_time"] for r in gate.rows("events")]
    known = [r["event_time"] for i, r in enumerate(rows) if i not in {7, 9}]
    assert sorted(times) == sorted(known)
    assert {r["origin"] for r in gate.rows("events")} == {"history"}


def received(gate: Gate) -> int:
    blocks_of(gate.tables, gate.pipeline)
    return len(gate.rows("events")) + len(gate.rows("quarantine"))


def test_two_doors_of_two_processes_cannot_disagree(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.clock = RisingClock(gate.clock.now())
    doors = [gate.door(), gate.door()]
    rows = disordered(60, seed=2, late_share=0)
    for i in range(0, 60, 5):
        write_jsonl(tmp_path / "live" / f"{i:03d}.jsonl", rows[i : i + 5])
        doors[i // 5 % 2].work()
    assert all(door.work() == -1 for door in doors)
    assert len(gate.rows("events")) == 60
    events = gate.rows("events")
    assert [r["event_time"] for r in events] == [r["event_time"] for r in rows]
    assert pc.max([r["block"] for r in events]).as_py() == 11
