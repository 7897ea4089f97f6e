"""Which state files of a checkpoint a start takes away: those of micro-batches it will repeat."""

from pathlib import Path

import pytest

from penstock.lake.history.checkpoint import Checkpoint, drop_later_state
from penstock.lake.history.offset import Offset

UNREAD = Offset({})
BEFORE = {"1.zip", "7.zip", "7.changelog", "8.changelog"}
LATER = {"9.changelog", "9.zip", "12.changelog"}
UNFINISHED = {".8.changelog.6644a847.TID14.tmp", ".9.zip.d712955b.TID11.tmp"}


@pytest.mark.parametrize(
    ("committed", "newest", "stays"),
    [
        (7, 7, BEFORE),
        (7, 8, BEFORE),
        (8, 8, BEFORE | {"9.changelog", "9.zip"}),
        (None, 0, set[str]()),
        (None, None, set[str]()),
    ],
    ids=["goes on", "repeats one", "one more is done", "repeats the first", "knows of none"],
)
def test_state_beyond_what_a_start_reads_goes(
    tmp_path: Path, committed: int | None, newest: int | None, stays: set[str]
) -> None:
    state = tmp_path / "state" / "0" / "1"
    (state / "SSTs").mkdir(parents=True)
    for name in BEFORE | LATER | UNFINISHED:
        (state / name).write_text("")
        (state / f".{name}.crc").write_text("")
    other = {"SSTs/12.sst", "SSTs/9c3b.sst"}
    for name in other:
        (state / name).write_text("")
    logged = {} if newest is None else {newest: UNREAD}
    found = Checkpoint(str(tmp_path), logged, committed, holds=True, failures=0)
    gone = drop_later_state(found)
    left = {str(path.relative_to(state)) for path in state.rglob("*") if path.is_file()}
    assert left == stays | {f".{name}.crc" for name in stays} | other
    assert gone == len(BEFORE | LATER | UNFINISHED) - len(stays)
    assert drop_later_state(found) == 0
