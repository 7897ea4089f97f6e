"""Snapshots: as of any moment, readers see what all steps had said when the log ended there."""

import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.config.snapshots import SnapshotConfig
from penstock.core.errors import ConfigError
from penstock.lake.serve.export import export
from penstock.lake.serve.moments import NAME, SCHEMA, moment, snapshots, up_to
from penstock.lake.serve.query import answered, as_of
from penstock.lake.serve.views import View, views
from tests.answers import blocks_of
from tests.custom import FUSSY, write_code
from tests.joins import LIVED
from tests.lakes import Lake, some_rows
from tests.lookups import MOVED, NOBODY
from tests.steps import CASES, SEEN, make_pipeline
from tests.streams import instant, write_jsonl
from tests.two_streams import CASES as TWO
from tests.two_streams import Life

pytestmark = pytest.mark.law
STEPS = {"sites": CASES["sites"][0], "seen": SEEN, "moved": MOVED, "own": FUSSY,
         "pairs": dict(LIVED.config)}  # fmt: skip
"""One of each kind."""
CLOSING = "bags >= 20"
ROUNDS, EACH = 5, 40


@dataclass
class Told:
    """A log that grows round by round, and all that was in force after each."""

    home: Path
    seed: int
    known: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        write_code(self.home)
        source = {"files": str(self.home / "live"), "format": "jsonl"}
        self.config = {"source": source, "snapshots": {"closing": CLOSING}, "steps": STEPS}
        self.lake = Lake(self.home, make_pipeline(self.home, **self.config), NOBODY, self.config,
                         "sites")  # fmt: skip
        self.lake.query()

    @property
    def views(self) -> dict[str, View]:
        return views(self.lake.tables, self.lake.pipeline)

    def grow(self) -> None:
        draw = random.Random(self.seed)  # noqa: S311
        rows = some_rows(ROUNDS * EACH, self.seed)
        for number in range(ROUNDS):
            part = rows[EACH * number : EACH * (number + 1)]
            write_jsonl(self.home / "live" / f"{number}.jsonl", part)
            self.lake.ingest()
            self.lake.query(blocks=draw.randint(1, 3)).run()
            if draw.random() < 0.6:
                for name in STEPS:
                    replace(self.lake, name=name).correct()
            seq = as_of(self.views, ", ".join(STEPS))
            assert seq is not None
            self.known[seq] = self.said(self.views)

    def said(self, known: dict[str, View]) -> dict[str, Any]:
        """All answers in force; what they are as of does not tell them apart."""
        found = {}
        for name in STEPS:
            with answered(known, f"SELECT * EXCLUDE (revision, through_seq) FROM {name}") as rows:
                found[name] = sorted(map(repr, rows.fetchall()))
        return found

    def asked(self, text: str) -> dict[str, Any]:
        return self.said(up_to(self.views, self.moment(text)))

    def moment(self, text: str) -> int:
        newest = as_of(self.views, ", ".join(STEPS))
        assert newest is not None
        return moment(self.lake.tables, self.lake.pipeline, text, newest)

    @property
    def times(self) -> list[int | None]:
        """Event times of the log, in the order of arrival; none: refused."""
        blocks = blocks_of(self.lake.tables, self.lake.pipeline)
        return [r["event_time"] if r else None for block in blocks for r in block.records]


@pytest.fixture(scope="module", params=[1, 2])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    found = Told(tmp_path_factory.mktemp("told"), request.param)
    found.grow()
    return found


def test_as_of_a_record_all_kinds_of_steps_say_what_they_had_said_then(told: Told) -> None:
    assert len(told.known) == ROUNDS
    for seq, said in told.known.items():
        assert told.asked(str(seq + 1)) == said
        assert told.asked(f"{seq + 1:,}") == said
    pictures = [str(said) for said in told.known.values()]
    assert len(set(pictures)) == ROUNDS, "each says something else"
    assert all(said[name] for name in STEPS), {n: len(said[n]) for n in STEPS}


def test_an_event_time_is_the_last_record_before_a_later_one(told: Told) -> None:
    times, newest = told.times, max(told.known)
    there = sorted(t for t in times[: newest + 1] if t is not None)
    for at in (there[len(there) // 3], there[len(there) // 2], there[2 * len(there) // 3] + 1):
        expected = next(seq for seq, t in enumerate(times) if t is not None and t > at) - 1
        assert told.moment(instant(at).isoformat()) == expected
        assert told.moment(instant(at).replace(tzinfo=None).isoformat()) == expected, "UTC"


def test_a_record_that_the_file_names_is_a_moment_and_all_are_listed(told: Told) -> None:
    lake = told.lake
    blocks = blocks_of(lake.tables, lake.pipeline)
    every = [record for block in blocks for record in block.records]
    marks = [s for s, r in enumerate(every) if r and r["bags"] is not None and r["bags"] >= 20]
    assert len(marks) > 2
    assert told.moment("closing") == marks[-1]
    view = snapshots(lake.tables, lake.pipeline)
    rows = view.content(None)
    assert rows.schema == SCHEMA
    assert rows["record"].to_pylist() == [seq + 1 for seq in marks]
    assert view.content(marks[1])["record"].to_pylist() == [seq + 1 for seq in marks[:2]]
    assert set(rows["snapshot"].to_pylist()) == {"closing"}
    assert moment(lake.tables, lake.pipeline, "closing", marks[-1] - 1) == marks[-2]
    with answered({NAME: view}, f"SELECT max(record) FROM {NAME}") as found:
        assert found.fetchall() == [(marks[-1] + 1,)]


def test_files_are_written_as_of_a_moment(told: Told, tmp_path: Path) -> None:
    seq = sorted(told.known)[ROUNDS // 2]
    written = export(told.lake.tables, told.lake.pipeline, tmp_path, asked=str(seq + 1))
    assert {one.step: one.answers for one in written} == {
        name: len(rows) for name, rows in told.known[seq].items()
    }
    assert {one.seq for one in written} == {seq}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("yesterday", "that is no moment. Name a record by its number .* or a snapshot .closing."),
        ("999,999", "record 999,999 is not answered yet: all asked for is as of "),
        ("2100-01-01", "the newest record is of .* that moment is not over"),
        ("1999-01-01", "the stream begins later, with a record of "),
        ("0", "records are counted from 1"),
    ],
)
def test_what_is_no_moment_is_said_with_the_remedy(told: Told, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"as of {text}: {said}"):
        told.moment(text)


def test_a_stream_that_has_ended_has_no_later_record(tmp_path: Path) -> None:
    source = {"files": str(tmp_path / "live"), "format": "jsonl", "mode": "bounded"}
    config = {"source": source, "steps": {"sites": CASES["sites"][0]}}
    pipeline = make_pipeline(tmp_path, **config)
    lake = Lake(tmp_path, pipeline, CASES["sites"][1], config, "sites")
    write_jsonl(tmp_path / "live" / "0.jsonl", some_rows(20, 3))
    lake.query()
    lake.ingest()
    lake.query().run()
    newest = as_of(views(lake.tables, pipeline), "sites")
    assert newest is not None
    assert moment(lake.tables, pipeline, "2100-01-01", newest) == newest


def test_a_snapshot_is_of_one_of_several_streams(tmp_path: Path) -> None:
    life = Life(tmp_path, TWO["any"], seed=1)
    life.finish()
    condition = {"fast": SnapshotConfig(where="speed > 3", stream="cars")}
    pipeline = life.lake.pipeline.model_copy(update={"snapshots": condition})
    tables = life.lake.tables
    blocks = blocks_of(tables, pipeline, streams=("cars",))
    records = [record for block in blocks for record in block.records]
    marks = [s + 1 for s, r in enumerate(records) if r and (r["speed"] or 0) > 3]
    assert marks
    assert snapshots(tables, pipeline).content(None)["record"].to_pylist() == marks
