"""What a host says of its steps; where all stand still it ends: for good if no retry can help."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock.core.errors import PenstockError, TerminalError, TransientError
from penstock.core.step import StepSpec
from penstock.lake.history.position import position
from penstock.spark.hosted import Hosted
from penstock.spark.stream_host import StreamFailedError, StreamHost
from tests.doubles import RecordingPulse, RisingClock
from tests.lakes import ROWS, Lake, make_lake
from tests.steps import CASES
from tests.streams import write_jsonl

QUERY = "together"


class Query:
    """Runs nothing; what comes to it fails."""

    name, undecided, done, ended = QUERY, False, 0, False

    def __init__(self, wrong: PenstockError) -> None:
        self.wrong, self.steps = wrong, tuple[StepSpec, ...]()

    def start(self, steps: list[StepSpec]) -> None:
        self.steps = tuple(steps)

    def generation_of(self, _step: str) -> None:
        return None

    def remove(self, step: str) -> None:
        self.steps = tuple(each for each in self.steps if each.id != step)

    def add(self, _steps: list[StepSpec]) -> None:
        raise self.wrong


@pytest.fixture
def lake(tmp_path: object) -> Lake:
    return make_lake(tmp_path, CASES["sites"])


@pytest.mark.parametrize(
    ("wrong", "ends"),
    [
        (TransientError("another process was faster"), StreamFailedError),
        (TerminalError("its table is damaged"), TerminalError),
    ],
)
def test_the_only_step_is_edited_and_cannot_begin(
    lake: Lake, wrong: PenstockError, ends: type[PenstockError]
) -> None:
    query = Query(wrong)
    hosted = Hosted(lake.tables, RisingClock(), lambda _: query, RecordingPulse(), QUERY)
    hosted.know(lake.step, QUERY)
    hosted.start(QUERY)
    edited = replace(lake.step, slack=replace(lake.step.slack, span=1))
    hosted.follow({edited.id: (QUERY, edited)}, again=True)
    host = SimpleNamespace(ingest=SimpleNamespace(failure=None), hosted=hosted)
    host._end = lambda: StreamHost._end(host)  # type: ignore[arg-type]
    with pytest.raises(ends, match=str(wrong)) as found:
        StreamHost._check(host)  # type: ignore[arg-type]
    assert isinstance(found.value, TerminalError) == isinstance(wrong, TerminalError)


def test_it_says_where_it_stands_before_it_seals_anything_in_this_life(lake: Lake) -> None:
    """Where nothing waits, that may be long."""
    write_jsonl(lake.home / "live" / "0.jsonl", ROWS)
    lake.ingest()
    lake.query().run()
    at = position(lake.tables, lake.step)
    assert at is not None
    query, pulse = Query(TransientError("none")), RecordingPulse()
    query.generation_of = lambda _: at.epoch  # type: ignore[assignment, return-value, method-assign]
    hosted = Hosted(lake.tables, RisingClock(), lambda _: query, pulse, QUERY)  # type: ignore[arg-type, return-value]
    hosted.know(lake.step, QUERY)
    hosted.start(QUERY)
    assert at.sealed.block > 0
    assert pulse.figures["block"] == at.sealed.block
    assert pulse.figures["records_per_second"] == 0
    assert pulse.steps[lake.step.id]["block"] == at.sealed.block
