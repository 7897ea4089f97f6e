"""Valid files with random bytes changed: whatever comes of it is counted, and the next is read."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gates import Gate, T
from tests.unit.bad_input.test_bad_files import parquet_bytes

RECORDS = 6
PARQUET = parquet_bytes(
    pa.table(
        {
            "event_time": [T] * RECORDS,
            "site": ["x", "Žižkov", "z"] * 2,
            "delay": [1.5, None, -0.0, 1e300, 2.0, 3.0],
            "more": [[1], [], None, [2, 3], [4], [5]],
        }
    )
)
JSON = "".join(
    f'{{"event_time": "{T}", "site": "Žižkov {i}", "delay": {i}.5, "bags": {i}, "q": [{i}]}}\n'
    for i in range(RECORDS)
).encode()
CSV = ("event_time,site,delay\n" + "".join(f'{T},"s ""{i}""",{i}.5\n' for i in range(6))).encode()
VALID = {"parquet": PARQUET, "jsonl": JSON, "csv": CSV}
TOKENS = [b"\xff", b"\0", b"\n", b"\r", b'"', b"{", b"}", b"[", b",", b"\\u", b"\\ud800", b"9" * 40,
          b"NaN", b"null", b"e999", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"-", b"PAR1"]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """Some bytes changed, cut out, put in, repeated or cut off."""
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        until = min(len(content), at + draw(st.integers(1, 60)))
        piece = draw(
            st.one_of(
                st.sampled_from(TOKENS),
                st.binary(max_size=8),
                st.just(b""),
                st.just(content[at:until] * 2),
                st.just(bytes(b ^ 1 << draw(st.integers(0, 7)) for b in content[at : at + 1])),
            )
        )
        insert = draw(st.booleans())
        content = content[:at] + piece + content[at if insert else until :]
        if draw(st.integers(0, 9)) == 0:
            content = content[:at]
    return content


def check(kind: str, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        gate = Gate(Path(folder), kind)
        gate.write(f"a.{kind}", content)
        gate.write(f"b.{kind}", VALID[kind])
        received = gate.take()
        accepted, refused = gate.conserved()
        assert received == accepted + refused
        good = [r for r in gate.rows("events") if r["arrival_seq"] >= received - RECORDS]
        assert len(good) == RECORDS, "the file after it is whole"
        assert all(reason and place for reason, place in gate.reasons())
        assert gate.take() == 0


@pytest.mark.parametrize("kind", VALID)
@given(data=st.data())
def test_a_mutated_file_loses_no_record_and_stops_nothing(kind: str, data: st.DataObject) -> None:
    check(kind, data.draw(mutated(VALID[kind])))


@pytest.mark.all
@pytest.mark.parametrize("kind", VALID)
@settings(max_examples=400)
@given(data=st.data())
def test_many_mutated_files_lose_no_record_and_stop_nothing(kind: str, data: st.DataObject) -> None:
    check(kind, data.draw(mutated(VALID[kind])))
