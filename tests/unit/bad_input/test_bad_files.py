"""Files that are not what they should be: refused with reason and place, and the next is read."""

import contextlib
import gzip
import os
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.lake.ingest import judging
from penstock.lake.ingest.amend import Amendment
from penstock.lake.ingest.reading import SourceError
from tests.doubles import Killed, RisingClock, deadly_commits, dies_at
from tests.gates import Gate, T
from tests.streams import ARROW, disordered, write_parquet

GOOD_JSON = f'{{"event_time": "{T}", "site": "x", "delay": 1}}\n'
HEADER = "event_time,site,delay\n"
GOOD_CSV = f"{T},x,1\n"


def parquet_bytes(table: pa.Table) -> bytes:
    out = BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def good_parquet(count: int = 50) -> bytes:
    schema = pa.schema(ARROW.items())
    return parquet_bytes(pa.Table.from_pylist(disordered(count, seed=1), schema))


def flipped(content: bytes, *places: int) -> bytes:
    broken = bytearray(content)
    for place in places:
        broken[place] ^= 0xFF
    return bytes(broken)


@pytest.mark.parametrize("broken", [
    pytest.param(lambda c: b"", id="empty"),
    pytest.param(lambda c: c[:4], id="only its first four bytes"),
    pytest.param(lambda c: c[: len(c) // 2], id="half"),
    pytest.param(lambda c: c[:-1], id="all but the last byte"),
    pytest.param(lambda c: flipped(c, 8, 30), id="a broken page"),
    pytest.param(lambda c: flipped(c, -9, -30), id="a broken footer"),
    pytest.param(lambda c: c[:-8] + b"\xff\xff\xff\x7fPAR1", id="a footer longer than the file"),
    pytest.param(gzip.compress, id="compressed as a whole"),
])  # fmt: skip
def test_parquet_that_is_broken_is_one_unreadable_record(
    tmp_path: Path, broken: Callable[[bytes], bytes]
) -> None:
    gate = Gate(tmp_path, "parquet")
    gate.write("a.parquet", broken(good_parquet()))
    gate.write("b.parquet", good_parquet(7))
    assert gate.take() == 8
    assert gate.conserved() == (7, 1)
    assert gate.reasons() == [("unreadable", "live/a.parquet")]
    assert gate.take() == 0, "it is refused once"


def test_a_bit_that_turns_in_a_footer_hides_no_record(tmp_path: Path) -> None:
    content, gate = good_parquet(64), Gate(tmp_path, "parquet")
    footer = int.from_bytes(content[-8:-4], "little")
    counts = set()
    for at in range(len(content) - 8 - footer, len(content) - 8):
        for bit in range(8):
            turned = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
            try:
                found = pq.read_metadata(BytesIO(turned))
                group = found.row_group(0).num_rows if found.num_row_groups else 0
            except (OSError, UnicodeError, pa.ArrowException):
                continue
            if (found.num_rows, group) != (64, 64):
                counts.add((found.num_rows, group))
                gate.write(f"{at} {bit}.parquet", turned)
    files = len([*(tmp_path / "live").iterdir()])
    assert {(0, 64), (64, 0)} <= counts
    assert gate.take() == files
    assert gate.conserved() == (0, files)
    assert {reason for reason, _ in gate.reasons()} == {"unreadable"}


def test_a_file_without_a_record_is_taken_and_counts_none(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "parquet")
    gate.write("a.parquet", good_parquet(0))
    assert gate.take() == 0
    assert gate.conserved() == (0, 0)


@pytest.mark.parametrize("cut", [1, 30, len(GOOD_JSON) - 2])
def test_json_lines_cut_off_lose_one_record(tmp_path: Path, cut: int) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.write("a.jsonl", (3 * GOOD_JSON)[: 2 * len(GOOD_JSON) + cut])
    assert gate.take() == 3
    assert gate.conserved() == (2, 1)
    assert gate.reasons() == [("malformed", "live/a.jsonl: line 3")]


def test_csv_cut_off_loses_one_record(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "csv")
    gate.write("a.csv", HEADER + GOOD_CSV + GOOD_CSV[:-4])
    gate.write("b.csv", HEADER[:-4])
    gate.write("c.csv", "")
    gate.write("d.csv", "\n \n")
    assert gate.take() == 2
    assert gate.reasons() == [("malformed", "live/a.csv: line 3")]
    assert gate.conserved() == (1, 1)


def test_csv_whose_header_is_no_text_is_unreadable(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "csv")
    gate.write("a.csv", b"event_\xff,site\n1,2\n")
    gate.write("b.csv", ("x" * 140_000 + "," + HEADER + GOOD_CSV))
    gate.write("c.csv", (HEADER + GOOD_CSV).encode("utf-16"))
    gate.write("d.csv", HEADER + GOOD_CSV)
    assert gate.take() == 4
    places = ["a", "b", "c"]
    assert gate.reasons() == [("unreadable", f"live/{p}.csv") for p in places]
    assert gate.conserved() == (1, 3)


@pytest.mark.parametrize("text", [
    b"\0" * 5_000,
    b"\0" * 30 + b"\n" + b"\0" * 40,
    GOOD_CSV.encode(),
    GOOD_CSV.encode() * 3,
    f"time,site,delay\n{GOOD_CSV}".encode(),
    f"Event_Time,site,delay\n{GOOD_CSV}".encode(),
    f"# exported today\n{HEADER}{GOOD_CSV}".encode(),
    f"event_time;site;delay\n{GOOD_CSV}".encode(),
    b"site,delay\n",
])  # fmt: skip
def test_csv_whose_first_line_is_no_header_is_unreadable_as_a_whole(
    tmp_path: Path, text: bytes
) -> None:
    gate = Gate(tmp_path, "csv", source={"mode": "bounded"})
    gate.write("a.csv", text)
    gate.write("b.csv", HEADER + GOOD_CSV)
    gate.write("c.csv", HEADER)
    assert gate.take() == 2
    assert gate.conserved() == (1, 1)
    assert gate.reasons() == [("unreadable", "live/a.csv")]
    assert "first line does not name the column 'event_time'" in gate.refused()[0][2]
    mended = Amendment(gate.tables, gate.pipeline, gate.home, RisingClock())
    gate.write("a.csv", HEADER + GOOD_CSV * 3)
    mended.retake("a.csv", "it has its header now")
    assert gate.take() == 3, "no record of it was lost to the header's place"


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_compressed_text_is_left_alone_by_its_name_and_refused_without_it(
    tmp_path: Path, kind: str
) -> None:
    gate = Gate(tmp_path, kind)
    content = gzip.compress((GOOD_JSON if kind == "jsonl" else HEADER + GOOD_CSV).encode(), mtime=0)
    gate.write(f"a.{kind}.gz", content)
    assert gate.take() == 0
    gate.write(f"a.{kind}", content)
    gate.take()
    accepted, refused = gate.conserved()
    assert accepted == 0
    assert refused >= 1


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    live = tmp_path / "live"
    gate.write("z.jsonl", GOOD_JSON)
    (live / "folder.jsonl").mkdir()
    os.mkfifo(live / "pipe.jsonl")
    assert gate.take() == 1
    assert gate.conserved() == (1, 0)


def test_names_are_taken_as_they_are_and_one_that_is_no_text_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(tmp_path, "jsonl")
    for name in ("ä ö%20#?.jsonl", "a\nb.jsonl", "c'\"d.jsonl"):
        gate.write(name, GOOD_JSON + "no\n")
    strange = os.fsencode(tmp_path / "live") + b"/\xff.jsonl"
    Path(os.fsdecode(strange)).write_text(GOOD_JSON)
    assert gate.take() == 6
    assert gate.conserved() == (3, 3)
    assert ("malformed", "live/ä ö%20#?.jsonl: line 2") in gate.reasons()
    assert "name that is not UTF-8" in caplog.text


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_file_that_grows_while_it_is_read_is_taken_as_it_was_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    head, line = ("", GOOD_JSON) if kind == "jsonl" else (HEADER, GOOD_CSV)
    gate = Gate(tmp_path, kind)
    gate.write(f"a.{kind}", head + 2 * line)
    path = tmp_path / "live" / f"a.{kind}"
    receive = judging.receive

    def grown(*given: Any) -> Any:
        with path.open("a") as file:
            file.write(3 * line)
        return receive(*given)

    monkeypatch.setattr(judging, "receive", grown)
    assert gate.take() == 2
    assert gate.conserved() == (2, 0)
    assert gate.take() == 0, "a file is taken once"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_file_rewritten_under_its_name_is_not_seen_again(tmp_path: Path, kind: str) -> None:
    gate = Gate(tmp_path, kind)
    few, many = _versions(kind)
    gate.write(f"a.{kind}", few)
    assert gate.take() == 2
    gate.write(f"a.{kind}", many)
    assert gate.take() == 0
    assert gate.conserved() == (2, 0)


@pytest.mark.parametrize("deaths", range(1, 9))
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("then", ["rewritten", "shorter", "gone"])
def test_a_file_changed_between_its_plan_and_the_commits_breaks_no_law(
    tmp_path: Path, kind: str, then: str, deaths: int
) -> None:
    gate = Gate(tmp_path, kind)
    few, many = _versions(kind)
    gate.write(f"a.{kind}", many if then == "shorter" else few)
    with deadly_commits(dies_at(deaths)):
        try:
            gate.take()
        except Killed:
            if then == "gone":
                path, away = tmp_path / "live" / f"a.{kind}", tmp_path / "away"
                path.rename(away)
                with contextlib.suppress(SourceError):  # only where it has to be read again
                    gate.take()
                away.rename(path)
            else:
                gate.write(f"a.{kind}", few if then == "shorter" else many)
            try:
                gate.take()
            except SourceError:  # not what was planned: a person decides
                Amendment(gate.tables, gate.pipeline, gate.home, RisingClock()).retake(
                    f"a.{kind}", ""
                )
                gate.take()
    accepted, refused = gate.conserved()
    assert accepted in ({2} if then == "gone" else {0, 2, 5})
    assert refused == 0
    assert gate.take() == 0


def _versions(kind: str) -> tuple[bytes, bytes]:
    if kind == "parquet":
        return good_parquet(2), good_parquet(5)
    head, line = (b"", GOOD_JSON) if kind == "jsonl" else (HEADER.encode(), GOOD_CSV)
    return head + 2 * line.encode(), head + 5 * line.encode()


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_line_of_100_megabytes_is_refused_and_the_others_are_taken(
    tmp_path: Path, kind: str
) -> None:
    head, line = ("", GOOD_JSON) if kind == "jsonl" else (HEADER, GOOD_CSV)
    long = line.replace("x", "x" * 100_000_000)
    gate = Gate(tmp_path, kind)
    gate.write(f"a.{kind}", head + line + long + line)
    assert gate.take() == 3
    assert gate.conserved() == (2, 1)
    ((_, reason, detail, place),) = gate.refused()
    assert (reason, place) == ("malformed", f"live/a.{kind}: line {2 if kind == 'jsonl' else 3}")
    assert f"a line of {len(long) - 1:,} bytes" in detail
    assert len(gate.rows("quarantine")[0]["raw"]) == 1 << 20, "its beginning is kept"


def test_lines_of_nothing_are_no_records(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "jsonl")
    gate.write("a.jsonl", "\n  \n\r\n\t\n" + GOOD_JSON.replace("\n", "\r\n") + "\n")
    gate.write("b.jsonl", b"\0\0\0\n")
    assert gate.take() == 2
    assert gate.conserved() == (1, 1)
    assert gate.reasons() == [("malformed", "live/b.jsonl: line 1")]


def test_json_beyond_all_measure_is_one_refused_record_each(tmp_path: Path) -> None:
    lines = [
        GOOD_JSON.replace("1}", "9" * 5_000 + "}"),
        GOOD_JSON.replace("1}", "[" * 100_000 + "]" * 100_000 + "}"),
        GOOD_JSON.replace("1}", "1e999}"),
        GOOD_JSON.replace("1}", f"{10**300}}}"),
        GOOD_JSON,
        GOOD_JSON.replace("1}", "1}}"),
        "null\n",
        "3\n",
    ]
    limit = sys.getrecursionlimit()
    gate = Gate(tmp_path, "jsonl")
    gate.write("a.jsonl", "".join(lines))
    assert gate.take() == 8
    assert gate.conserved() == (2, 6)
    assert [r["arrival_seq"] for r in gate.rows("events")] == [3, 4]
    assert sys.getrecursionlimit() == limit


def test_a_file_of_which_the_door_can_make_nothing_does_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = judging.judge

    def failing(received: Any, *rest: Any) -> Any:
        if received.columns.num_rows in {3, 7}:  # by itself, and together with the other
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return judge(received, *rest)

    monkeypatch.setattr(judging, "judge", failing)
    gate = Gate(tmp_path, "parquet")
    write_parquet(tmp_path / "live" / "a.parquet", disordered(3, seed=1))
    write_parquet(tmp_path / "live" / "b.parquet", disordered(4, seed=1))
    assert gate.take() == 5
    assert gate.reasons() == [("unreadable", "live/a.parquet")]
    assert gate.conserved() == (4, 1)
