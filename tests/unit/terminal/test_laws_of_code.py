"""``penstock validate --laws``: code is tried on a sample, with the side data that lies there."""

from pathlib import Path

import pytest

from penstock.config.catalog import read_pipeline
from penstock.config.pipeline import Pipeline
from penstock.core.errors import ConfigError
from penstock.runtime.terminal.laws import tried
from tests.custom import LONGEST_FILE
from tests.doubles import RisingClock
from tests.streams import BEGIN, write_jsonl

CODE = """import pyarrow as pa
import pyarrow.compute as pc

from penstock.kinds.custom.code import Code


class Longest(Code):
    state = {"most": "long"}

    def init(self, rows):
        return {"most": pa.nulls(rows, pa.int64())}

    def update(self, states, records):
        return {"most": pc.max_element_wise(states["most"], records["limits.seconds"])}

    def merge(self, one, other):
        return {"most": pc.max_element_wise(one["most"], other["most"])}

    def finish(self, states):
        return states
"""


def pipeline(home: Path, old: str = "", new: str = "") -> Pipeline:
    assert old in CODE
    (home / "p.py").write_text(CODE.replace(old, new) if old else CODE)
    (home / "p.yaml").write_text(LONGEST_FILE)
    write_jsonl(
        home / "live" / "1.jsonl",
        [{"site": f"s{n % 4}", "ts": BEGIN.isoformat()} for n in range(60)],
    )
    (home / "limits.csv").write_text("a,seconds\ns0,5\ns1,7\ns2,9\n")
    found, problems = read_pipeline(home / "p.yaml")
    assert found is not None, problems
    return found


def test_of_code_that_keeps_the_laws_it_is_said_on_what_it_was_tried(tmp_path: Path) -> None:
    read = pipeline(tmp_path)
    found = tried(read, tmp_path, RisingClock())
    assert found.broken == ()
    assert "on 60 records" in str(found)
    (tmp_path / "live" / "1.jsonl").unlink()
    assert "not tried" in str(tried(read, tmp_path, RisingClock()))


def test_code_that_does_not_merge_is_shown_with_what_it_got(tmp_path: Path) -> None:
    (found,) = tried(
        pipeline(tmp_path, 'pc.max_element_wise(one["most"], other["most"])', 'pc.add(1, 1)'),
        tmp_path, RisingClock(),
    ).broken  # fmt: skip
    assert (found.path.name, found.line) == ("p.yaml", 9)
    assert "p.py:16: Longest.merge: TypeError: most is one value (2). Give a column" in str(found)
    (found,) = tried(
        pipeline(tmp_path, 'one["most"], other["most"]', 'one["most"], pc.add(other["most"], 1)'),
        tmp_path, RisingClock(),
    ).broken  # fmt: skip
    assert "reduce does not merge" in str(found)
    assert "'limits.seconds': " in str(found)


def test_side_data_that_is_not_there_is_said(tmp_path: Path) -> None:
    read = pipeline(tmp_path)
    (tmp_path / "limits.csv").unlink()
    with pytest.raises(ConfigError, match=r"load.limits: .*limits.csv"):
        tried(read, tmp_path, RisingClock())
