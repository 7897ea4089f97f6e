"""One text, one value: what a record holds follows from its own line, whatever stands beside it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.lake.ingest.json_text import spans
from tests.gates import Gate, T

COLUMNS = {"site": "string", "text": "string", "delay": "double", "bags": "long", "ok": "boolean"}
LINES = [
    '{"event_time": "%s", "site": "a", "text": 1234567890123456, "bags": 9007199254740993}',
    '{"event_time": "%s", "site": "b", "text": 1.5, "bags": 2.0, "more": 1.50}',
    '{"event_time": "%s", "site": "c", "text": true, "ok": 1, "bags": "3", "delay": "0.1"}',
    '{"event_time": "%s", "site": "d", "text": {"k":  [1, 1.0]}, "ok": "1", "delay": 1e3}',
    '{"event_time": "%s", "site": 5, "text": "1.50", "bags": 1E3, "more": {"b":1,  "a":null}}',
    '{"event_time": "%s", "site": "f", "text": 1e5, "ok": false, "more": 12345678901234567890123}',
    '{"event_time": "%s", "site": "g", "text": [], "more": NaN, "other": "\\u00e9\\n"}',
    '{"event_time": "%s", "site": "h", "text": "", "delay": 1.5, "bags": null}',
]


def kept(gate: Gate) -> list[dict[str, Any]]:
    """The accepted records without their places."""
    names = ["event_time", *COLUMNS, "extra"]
    return [{n: row[n] for n in names} for row in gate.rows("events")]


def test_a_line_alone_gives_the_same_as_among_others(tmp_path: Path) -> None:
    lines = [line.replace("%s", T) for line in LINES]
    together = Gate(tmp_path / "together", "jsonl", columns=COLUMNS)
    together.write("a.jsonl", "".join(f"{line}\n" for line in lines))
    assert together.take() == len(lines)
    alone = Gate(tmp_path / "alone", "jsonl", columns=COLUMNS)
    for number, line in enumerate(lines):
        alone.write(f"{number}.jsonl", line)
    assert alone.take() == len(lines)
    rows = kept(together)
    assert rows == kept(alone)
    assert [row["text"] for row in rows] == [
        "1234567890123456", "1.5", "true", '{"k":  [1, 1.0]}', "1.50", "1e5", "[]", None,
    ]  # fmt: skip
    assert [row["bags"] for row in rows] == [2**53 + 1, 2, 3, None, 1000, None, None, None]
    assert [row["ok"] for row in rows] == [None, None, True, True, None, False, None, None]
    assert [row["extra"] for row in rows] == [
        None, '{"more":1.50}', None, None, '{"more":{"b":1,  "a":null}}',
        '{"more":12345678901234567890123}', '{"more":NaN,"other":"\\u00e9\\n"}', None,
    ]  # fmt: skip


TEXTS = ["1234567890123456", "1.50", "1e3", "0", "1", "true", "7.0", "-0", "9007199254740993", "x"]


@pytest.mark.parametrize("kind", ["string", "long", "double", "boolean"])
def test_the_same_text_gives_the_same_value_from_every_format(tmp_path: Path, kind: str) -> None:
    found = {}
    for form in ("jsonl", "quoted", "csv", "parquet"):
        suffix = "jsonl" if form == "quoted" else form
        gate = Gate(tmp_path / form, suffix, columns=COLUMNS | {"v": kind})
        place = tmp_path / form / "live" / f"a.{suffix}"
        place.parent.mkdir(parents=True)
        if form == "csv":
            rows = "".join(f"{T},x,{text}\n" for text in TEXTS)
            place.write_text(f"event_time,site,v\n{rows}")
        elif form == "parquet":
            n = len(TEXTS)
            pq.write_table(pa.table({"event_time": [T] * n, "site": ["x"] * n, "v": TEXTS}), place)
        else:
            bare = [t if t != "x" and form == "jsonl" else json.dumps(t) for t in TEXTS]
            lines = [f'{{"event_time": "{T}", "site": "x", "v": {text}}}' for text in bare]
            place.write_text("\n".join(lines))
        assert gate.take() == len(TEXTS)
        found[form] = {row["arrival_seq"]: row["v"] for row in gate.rows("events")}
    assert found["jsonl"] == found["quoted"] == found["csv"] == found["parquet"]
    assert found["csv"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    record=st.dictionaries(st.text(max_size=4), VALUES, max_size=5),
    indent=st.sampled_from([None, 1]),
)
def test_the_parts_cut_out_of_an_object_are_its_values(
    record: dict[str, Any], indent: int | None
) -> None:
    cut = {
        name: json.loads(bytes(raw))
        for name, raw in spans(json.dumps(record, indent=indent)).items()
    }
    assert repr(cut) == repr(json.loads(json.dumps(record)))


@pytest.mark.parametrize("line", [
    '{"event_time": "%s", "site": "a", "site": "b"}',
    '{"site": "a", "event_time": "%s", "site": 1}',
    '{"event_time": "%s", "site": "a", "s\\u0069te": "b"}', '{"bags": NaN, "bags": 1, "site": "a"}',
    '{"event_time": "%s", "site": "a", "bags": {"k": 1}, "bags": {"k": 1}}',
])  # fmt: skip
def test_a_name_that_stands_twice_in_a_json_object_has_no_value(tmp_path: Path, line: str) -> None:
    gate = Gate(tmp_path, "jsonl", columns=COLUMNS)
    good = [
        '{"event_time": "%s", "site": "site", "text": "\\n\\"site\\"", "x": 1, "x": 2}',
        '{"event_time": "%s", "site": "c", "text": {"site": {"site": 1}, "bags": 1}, "bags": 2}',
    ]
    gate.write("a.jsonl", "\n".join([good[0], line, good[1]]).replace("%s", T))
    assert gate.take() == 3
    ((_, reason, said, place),) = gate.refused()
    assert (reason, place) == ("malformed", "live/a.jsonl: line 2")
    assert "twice" in said
    assert [row["site"] for row in gate.rows("events")] == ["site", "c"]


@pytest.mark.parametrize(("header", "fine"), [
    ("event_time,site,site,x", False), ("event_time,site,x,event_time", False),
    ("event_time,site,x,x", True), ("event_time,site,,", True),
])  # fmt: skip
def test_a_column_that_stands_twice_in_a_csv_file_has_no_values(
    tmp_path: Path, header: str, fine: bool
) -> None:
    gate = Gate(tmp_path, "csv", columns=COLUMNS)
    gate.write("a.csv", f"{header}\n{T},a,{T},{T}\n{T},b,{T},{T}\n")
    gate.write("b.csv", f"event_time,site\n{T},c\n")
    gate.take()
    sites = [row["site"] for row in gate.rows("events")]
    assert sites == (["a", "b", "c"] if fine else ["c"])
    said = [(reason, "twice" in detail, place) for _, reason, detail, place in gate.refused()]
    assert said == ([] if fine else [("unreadable", True, "live/a.csv")])


@pytest.mark.parametrize("line", [
    f'{T},x,"swallows', f'{T},"x,1', f'"{T}"x,y,1', f'{T},"x"y,1', f'{T},x,"1""',
])  # fmt: skip
def test_a_stray_quote_spoils_its_own_line_and_says_so(tmp_path: Path, line: str) -> None:
    gate = Gate(tmp_path, "csv", columns=COLUMNS)
    gate.write("a.csv", f'event_time,site,text\n{T},a,1\n{line}\n{T},b,"2, ""3"""\n{T},c,5" in\n')
    assert gate.take() == 4
    assert gate.reasons() == [("malformed", "live/a.csv: line 3")]
    assert [r["text"] for r in gate.rows("events")] == ["1", '2, "3"', '5" in']


def test_a_stray_quote_in_a_header_makes_its_file_unreadable(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "csv", columns=COLUMNS)
    gate.write("a.csv", f'event_time,site,"text\n{T},a,1\n')
    assert gate.take() == 1
    assert gate.reasons() == [("unreadable", "live/a.csv")]
