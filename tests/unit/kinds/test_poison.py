"""Records on which user code fails are left out alone, however records come together."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.columns.marks import NO_MARKS
from penstock.kinds.custom import poison
from penstock.kinds.custom.again import again
from penstock.kinds.custom.calls import UserCodeError
from penstock.kinds.custom.laws import tried
from penstock.kinds.custom.mapper import Mapper
from penstock.kinds.custom.spec import CustomSpec
from penstock.kinds.frame import Asked
from penstock.kinds.keyed.runs import SEQ
from tests.custom import CODE, FUSSY, NO_SIDES, SITES, Make, records
from tests.steps import make_pipeline

ALL = Asked(-(2**60), 2**60, None, 2**60, -1, -(2**60))


def mapped(step: Any, *parts: pa.Table) -> Mapper:
    mapper = Mapper(step, NO_MARKS, None, NO_SIDES)
    for part in parts:
        mapper.take(part)
    return mapper


def fails(table: pa.Table) -> set[int]:
    return {row["arrival_seq"] for row in table.to_pylist() if row["code"] in {0, 1}}


def with_codes(*codes: int | None) -> pa.Table:
    table = records(len(codes))
    return table.set_column(
        table.schema.get_field_index("code"), "code", pa.array(codes, pa.int64())
    )


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(
    st.lists(st.sampled_from([0, 1, 2, 3, None]), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=4),
)
def test_which_are_left_out_hangs_on_each_alone(
    make: Make, codes: list[int | None], cuts: list[int]
) -> None:
    step, table = make(FUSSY), with_codes(*codes)
    ends = [0, *sorted(min(cut, len(codes)) for cut in cuts), len(codes)]
    pieces = [table.slice(a, b - a) for a, b in pairwise(ends)]
    found = mapped(step, *pieces)
    assert sorted(found.excluded["arrival_seq"].to_pylist()) == sorted(fails(table))
    parts = found.parts()
    assert sorted(parts[SEQ].to_pylist()) == sorted({*range(len(codes))} - fails(table))
    assert parts.sort_by(SEQ).equals(mapped(step, table).parts().sort_by(SEQ))


def test_the_reason_says_file_line_and_what_was_raised(make: Make) -> None:
    found = mapped(make(FUSSY), with_codes(2, 1, 0)).excluded.to_pylist()
    assert [row["arrival_seq"] for row in found] == [1, 2]
    one, other = (row["reason"] for row in found)
    assert re.fullmatch(r"s: /.*/p\.py:\d+: Fussy\.map: ValueError: code 1 is not for me", one)
    assert "Fussy.update: ArrowInvalid: divide by zero" in other


def test_the_line_is_said_wherever_else_the_same_text_was_loaded(tmp_path: Path) -> None:
    steps = [({"s": FUSSY}, "b"), ({"s": SITES}, "c"), ({"s": FUSSY}, "a")]
    for step, folder in steps:  # a text of its own: others have loaded that of the tests
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "p.py").write_text(f"{CODE}\n# told twice\n")
        spec = make_pipeline(tmp_path / folder, step).spec("s")
        assert isinstance(spec, CustomSpec)
        excluded = mapped(spec, with_codes(2, 1)).excluded.to_pylist()
    (told,) = (row["reason"] for row in excluded)
    assert re.search(r"/a/p\.py:\d+: Fussy\.map: ", told)


def test_where_it_fails_on_every_record_the_step_stops(make: Make) -> None:
    step = make(FUSSY)
    few = mapped(step, with_codes(*[1] * 50))
    assert few.excluded.num_rows == 50
    every = with_codes(*[1] * (poison.MANY + 1))
    with pytest.raises(UserCodeError, match=r"It fails on each of 100 records of 1,001"):
        mapped(step, every)
    half = with_codes(*[1, 2] * (poison.MANY // 2 + 1))
    assert mapped(step, half).excluded.num_rows == poison.MANY // 2 + 1


def test_what_fails_together_only_is_no_poison(make: Make) -> None:
    step = make(FUSSY, 'if pc.any(pc.equal(records["code"], 1)).as_py():', "if len(records) > 1:")
    with pytest.raises(UserCodeError, match=r"Rows must be dealt with alone"):
        mapped(step, with_codes(2, 3))


def test_an_error_of_the_system_leaves_nothing_out(make: Make) -> None:
    step = make(FUSSY, 'raise ValueError("code 1 is not for me")', 'raise MemoryError("no room")')
    with pytest.raises(MemoryError):
        mapped(step, with_codes(2, 1))


def test_the_laws_name_the_record(make: Make) -> None:
    table = with_codes(2, 3, 1, 1)
    said = r"code 1 is not for me\. The stream would leave out this record, and 1 more: .*'code': 1"
    with pytest.raises(UserCodeError, match=said):
        tried(make(FUSSY), table["arrival_seq"], table.drop_columns(["arrival_seq"]), NO_SIDES)


def test_where_states_cannot_be_finished_key_and_record_are_named(make: Make) -> None:
    """Five records of a site are too many for it."""
    step = make(
        FUSSY,
        '        first = states["first"]',
        '        pc.divide(1, pc.subtract(5, states["n"]))\n        first = states["first"]',
    )
    table = with_codes(*[2] * 40)
    sites = np.asarray(table["site"])
    site = next(s for s in dict.fromkeys(sites) if (sites == s).sum() >= 5)
    at = int(np.flatnonzero(sites == site)[4])
    mine = table.filter(pc.equal(table["site"], site))
    said = rf"Fussy\.finish: ArrowInvalid: divide by zero, of site={site} at record {at}"
    with pytest.raises(UserCodeError, match=said):
        again(step, mapped(step, mine).parts(), ALL, NO_SIDES)
