"""User code: what it gives is checked, where it fails is said, what does not merge is found."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.columns.marks import NO_MARKS
from penstock.kinds.custom.calls import Calls, UserCodeError
from penstock.kinds.custom.laws import tried
from penstock.kinds.custom.mapper import Mapper
from penstock.kinds.custom.scan import reduced, running
from tests.custom import CODE, NO_SIDES, PAIRS, SITES, Make, records
from tests.steps import make_pipeline


def joined(one: pa.Table, other: pa.Table) -> pa.Table:
    """Merging that shows its order."""
    both = zip(one["t"].to_pylist(), other["t"].to_pylist(), strict=True)
    return pa.table({"t": [a + b for a, b in both]})


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_states_are_reduced_in_order_key_by_key(keys: list[int]) -> None:
    keys = sorted(keys)
    letters = [chr(97 + at % 26) for at in range(len(keys))]
    states, ids = pa.table({"t": letters}), np.array(keys)
    ids = np.unique(ids, return_inverse=True)[1]
    by_key: dict[int, str] = {}
    after = []
    for key, letter in zip(keys, letters, strict=True):
        by_key[key] = by_key.get(key, "") + letter
        after.append(by_key[key])
    first = np.searchsorted(ids, ids)
    assert running(joined, states, first)["t"].to_pylist() == after
    assert reduced(joined, states, ids)["t"].to_pylist() == [*by_key.values()]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('pc.add(states["n"], 1)', 'states["m"]', r'p\.py:21: Sites\.update: KeyError: '),
        ('"n": pc.add(states["n"], 1),', "", r"Sites\.update gave no n \(it gave: least, first\)"),
        ('pc.add(states["n"], 1)', 'pc.add(states["n"], 1.5)',
         r"Sites\.update gave what does not fit: n is double, and no long"),
        ("np.zeros(rows, np.int64)", "np.zeros(rows + 1, np.int64)", r"p\.py:\d+: Sites\.init: "),
        ('return {"n": np.zeros(rows, np.int64), "least": nothing, "first": nothing}',
         'return {"n": [0], "least": [None], "first": [None]}',
         r"Sites\.init gave 1 rows for 1001: row i is of row i"),
        ('"n": "long", "least"', '"n": "int", "least"', r"Sites\.state: 'int' is not a valid"),
        ("class Sites(Code)", "class Sites", r"Sites is no class derived from"),
        ("import numpy as np", "import nothing_of_this_name", r"p\.py:3: Sites\.load: ModuleNotF"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_code_is_said_with_its_line(
    make: Make, old: str, new: str, said: str
) -> None:
    with pytest.raises(UserCodeError, match=said):
        Mapper(make(SITES, old, new), NO_MARKS, None, NO_SIDES).take(records(1_001))


def test_an_error_of_the_system_is_none_of_the_code(make: Make) -> None:
    step = make(SITES, 'pc.add(states["n"], 1)', "open('/no/such/file')")
    with pytest.raises(FileNotFoundError):
        Mapper(step, NO_MARKS, None, NO_SIDES).take(records())


def test_a_row_of_no_record_is_refused(make: Make) -> None:
    step = make(PAIRS, "return pa.concat_tables([two, one, one])",
                'return two.set_column(two.schema.get_field_index("arrival_seq"), "arrival_seq",'
                ' pc.add(two["arrival_seq"], 7))')  # fmt: skip
    with pytest.raises(UserCodeError, match=r"gave arrival_seq \d+, which is of none of its"):
        Mapper(step, NO_MARKS, None, NO_SIDES).take(records())


@pytest.mark.parametrize("step", [SITES, PAIRS], ids=["sites", "pairs"])
def test_code_that_merges_keeps_the_laws(make: Make, step: dict[str, Any]) -> None:
    table = records(300)
    assert (
        tried(make(step), table["arrival_seq"], table.drop_columns(["arrival_seq"]), NO_SIDES)
        is None
    )


@pytest.mark.parametrize(
    ("old", "new", "law", "fewest"),
    [
        ('pc.add(one["n"], other["n"])', 'one["n"]', "reduce does not merge", 1),
        ('pc.min_element_wise(one["least"], other["least"])', 'one["least"]',
         "reduce does not merge", 1),
        ('"n": pc.add(states["n"], 1),', '"n": pc.add(pc.multiply(states["n"], 2), 1),',
         "reduce does not merge", 2),
        ("np.zeros(rows, np.int64)", "np.ones(rows, np.int64)", "reduce does not merge", 1),
    ],
)  # fmt: skip
def test_code_that_does_not_merge_is_shown_with_the_fewest_records(
    make: Make, old: str, new: str, law: str, fewest: int
) -> None:
    table = records(300)
    found = tried(
        make(SITES, old, new), table["arrival_seq"], table.drop_columns(["arrival_seq"]), NO_SIDES
    )
    assert found is not None
    assert (found.law, len(found.records)) == (law, fewest)
    assert found.one != found.other
    assert "merged in another order: " in str(found)


def test_a_map_that_mixes_rows_is_shown(make: Make) -> None:
    new = 'letter = pc.if_else(len(records) > 1, "x", records["site"])'
    step = make(PAIRS, 'letter = pc.utf8_slice_codeunits(records["site"], 0, 1)', new)
    table = records(300)
    found = tried(step, table["arrival_seq"], table.drop_columns(["arrival_seq"]), NO_SIDES)
    assert found is not None
    assert (found.law.partition(":")[0], len(found.records)) == ("map mixes rows", 2)


def test_other_code_is_another_step_wherever_it_lies(make: Make, tmp_path: Path) -> None:
    one, other = make(), make(SITES, "least code", "smallest code")
    assert one.fingerprint != other.fingerprint
    home = tmp_path / "elsewhere"
    home.mkdir()
    (home / "p.py").write_text(CODE)
    assert make_pipeline(home, {"s": SITES}).spec("s").fingerprint == one.fingerprint


def test_a_process_loads_a_text_once(make: Make) -> None:
    assert type(Calls(make()).code) is type(Calls(make()).code)
