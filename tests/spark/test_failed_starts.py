"""A disk loses the state of all queries alike: a failed start counts for each of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.config.pipeline import TOGETHER
from penstock.core.errors import TerminalError
from penstock.core.step import StepSpec
from penstock.lake.history.checkpoint import newest_checkpoint
from penstock.lake.proof.unsettled import OVERDUE
from penstock.spark import stream_host
from penstock.spark.follow import StepStart
from penstock.spark.query import LogQuery
from penstock.spark.roster import Roster
from penstock.spark.running import wanted
from penstock.spark.stream_host import StreamFailedError, StreamHost
from penstock.spark.watchdog import Watchdog
from tests.doubles import ONE_CORE, RecordingPulse, RisingClock
from tests.spark.conftest import make_scene

WAITING = "Waiting for data to arrive"


@dataclass
class Query:
    """A streaming query as its handle tells of it; it fails when asked so often."""

    fails_after: int | None
    message: str = "Initializing sources"
    asked: int = 0
    lastProgress: dict[str, Any] | None = None  # noqa: N815  Spark's name
    error: Exception = field(default_factory=lambda: ValueError("state is lost"))

    @property
    def isActive(self) -> bool:  # noqa: N802  Spark's name
        self.asked += 1
        return not self._failed

    @property
    def _failed(self) -> bool:
        return self.fails_after is not None and self.asked >= self.fails_after

    def exception(self) -> Exception | None:
        return self.error if self._failed else None

    @property
    def status(self) -> dict[str, Any]:
        return {"message": self.message, "isTriggerActive": False}

    def stop(self) -> None:
        """Nothing runs."""


def running(host: StreamHost, name: str, query: Query, block: int = 0) -> LogQuery:
    """A query of the host's, with its steps."""
    made = host._query(name)
    for step in host.pipeline.queries[name]:
        host.hosted.know(step, name)
        host.hosted.steps[step.id].block = block
        made._starts[step.id] = StepStart(step, None)  # type: ignore[arg-type]
    made.streaming = query  # type: ignore[assignment]
    host.hosted.queries[name] = made
    return made


Starts = Callable[[LogQuery], Query]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Starts], None]:
    """Let queries start as they are told to."""

    def by(start: Starts) -> None:
        def started(query: LogQuery, steps: Sequence[StepSpec]) -> None:
            starts = {step.id: StepStart(step, None) for step in steps}  # type: ignore[arg-type]
            query._starts |= starts
            query._roster = Roster(tmp_path / query.name)
            query.streaming = start(query)  # type: ignore[assignment]

        monkeypatch.setattr(LogQuery, "start", started)

    return by


ROW = {"block": 9, "micro_batch": 0, "watermark_us": 0, "t_max_us": 0, "through_seq": 5,
       "records": 6, "answers": 1, "pairs_late": 0, "pairs_open": 2, "slack_us": 0,
       "shards": 2, "moves": False, "moved_rows": 0, "kept": 3, "busy": 0.1}  # fmt: skip


APART = "apart-since"


@pytest.fixture
def host(tmp_path: Path) -> StreamHost:
    """Of two queries: one of the steps runs apart."""
    scene = make_scene(tmp_path)
    steps = scene.config["steps"]
    scene.config["steps"] = {"hourly": steps["hourly"], "since": steps["since"] | {"apart": True}}
    scene.begin()
    lake = scene.lake("hourly")
    pulse = RecordingPulse(lambda _: False)
    return StreamHost(ONE_CORE, lake.tables, lake.pipeline, tmp_path, RisingClock(), pulse)  # type: ignore[arg-type]


def counts(host: StreamHost) -> dict[str, int]:
    return {
        query: newest_checkpoint(host.tables, query).failures for query in host.pipeline.queries
    }


def test_a_step_runs_with_the_others_or_apart(host: StreamHost) -> None:
    found = {name: [s.name for s in steps] for name, steps in host.pipeline.queries.items()}
    assert found == {TOGETHER: ["hourly"], APART: ["since"]}


def test_a_query_that_fails_a_moment_later_is_counted_too(host: StreamHost) -> None:
    running(host, TOGETHER, Query(0))
    running(host, APART, Query(5))
    with pytest.raises(StreamFailedError, match="the query of hourly ended: state is lost"):
        host._check()
    assert counts(host) == {TOGETHER: 1, APART: 1}


SAID = "hourly.total: a sum of integers exceeds 64 bits. Do"


def test_a_step_whose_sum_overflows_stops_alone_and_says_so(
    host: StreamHost, monkeypatch: pytest.MonkeyPatch, started: Callable[[Starts], None]
) -> None:
    """The others go on, and a failure of theirs is counted as always; a stop is no failure."""
    sound = Query(None, WAITING)

    def start(query: LogQuery) -> Query:
        if query.name == TOGETHER:
            query.sink._stands_still("hourly", SAID)
        return sound

    started(start)
    monkeypatch.setattr(stream_host, "POLL_SECONDS", 0.001)
    pulse = RecordingPulse(lambda pulse: "sealed" in pulse.figures)
    host.pulse = host.hosted._pulse = pulse
    host.run()
    assert pulse.steps["hourly"] == {"error": SAID}
    assert pulse.figures["stands_still"] == f"hourly stands still, the other steps go on: {SAID}"
    assert counts(host) == {TOGETHER: 0, APART: 0}
    host._told("since", ROW)
    assert pulse.figures["block"] == 9, "of those that go on"
    sound.fails_after = 0
    with pytest.raises(StreamFailedError, match="the query of hourly ended"):
        host._check()
    assert counts(host) == {TOGETHER: 1, APART: 1}


@pytest.mark.parametrize("stopped", [["hourly"], ["hourly", "since"]])
def test_a_host_ends_with_the_cause_once_no_step_can_go_on_further(
    host: StreamHost, monkeypatch: pytest.MonkeyPatch, started: Callable[[Starts], None],
    stopped: list[str],
) -> None:  # fmt: skip
    def start(query: LogQuery) -> Query:
        if query.name == TOGETHER:
            for name in stopped:
                query.sink._stands_still(name, SAID)
        return Query(None, WAITING)

    started(start)
    monkeypatch.setattr(stream_host, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(type(host.door), "ended", True)
    monkeypatch.setattr(type(host.door), "next_block", 0)
    with pytest.raises(TerminalError, match=r"^hourly\.total: a sum"):
        host.run()
    assert host.pulse.figures["error"].startswith("TerminalError: hourly.total: ")


@pytest.mark.parametrize("sound", [Query(None, WAITING), Query(None, lastProgress={"batchId": 0})])
def test_a_query_that_runs_is_not(host: StreamHost, sound: Query) -> None:
    running(host, TOGETHER, Query(0))
    running(host, APART, sound)
    with pytest.raises(StreamFailedError):
        host._check()
    assert counts(host) == {TOGETHER: 1, APART: 0}


def test_a_step_that_seals_nothing_while_blocks_wait_ends_the_host_and_is_counted(
    host: StreamHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    host._watchdog = Watchdog(lambda: now[0])
    spinning = Query(None, "Processing new data", lastProgress={"batchId": 0})
    running(host, TOGETHER, spinning, 4)
    running(host, APART, Query(None, WAITING), 7)
    monkeypatch.setattr(type(host.door), "next_block", 7)
    while now[0] <= OVERDUE.total_seconds():
        host._check()
        now[0] += 20
    with pytest.raises(StreamFailedError, match=r"hourly: it has sealed nothing .* 3 blocks wait"):
        host._check()
    assert counts(host) == {TOGETHER: 1, APART: 0}


def test_a_host_that_fails_says_why_before_it_waits_for_anything(
    host: StreamHost, monkeypatch: pytest.MonkeyPatch, started: Callable[[Starts], None]
) -> None:
    pulse, told = RecordingPulse(lambda _: False), []
    host.pulse = pulse
    started(lambda _: Query(0))
    monkeypatch.setattr(host, "_stop", lambda **_: told.append(pulse.figures["error"]))
    with pytest.raises(StreamFailedError):
        host.run()
    assert told[0] == "StreamFailedError: p: the query of hourly ended: state is lost"


def test_queries_start_one_after_the_other(
    host: StreamHost, monkeypatch: pytest.MonkeyPatch, started: Callable[[Starts], None]
) -> None:
    """Each starts Python processes: all at once, none came up in time on a busy machine."""
    undecided: list[int] = []

    class Starting(Query):
        @property
        def status(self) -> dict[str, Any]:
            self.message = "Waiting for data to arrive" if self.asked > 3 else "Initializing"
            return super().status

    def start(_: LogQuery) -> Query:
        undecided.append(sum(query.undecided for query in host.hosted.queries.values()))
        return Starting(None)

    started(start)
    monkeypatch.setattr(stream_host, "POLL_SECONDS", 0.001)
    host.pulse = RecordingPulse(lambda pulse: "sealed" in pulse.figures)
    host.run()
    assert undecided == [0, 0]


def test_a_step_that_cannot_come_is_tried_again_later_and_the_others_go_on(
    host: StreamHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(host, TOGETHER, Query(None, WAITING))
    running(host, APART, Query(None, WAITING))
    hosted, tried = host.hosted, list[str]()
    guest = replace(host.pipeline.spec("hourly"), guest="g")
    asked = {**wanted([host.pipeline]), guest.id: (TOGETHER, guest)}

    def add(_: LogQuery, steps: Sequence[StepSpec]) -> None:
        tried.extend(step.id for step in steps)
        if len(tried) < 3:
            raise TerminalError("its table is damaged")

    monkeypatch.setattr(LogQuery, "add", add)
    assert hosted.follow(asked, again=True), "there is one more"
    for pause in (30.0, 60.0):
        new = hosted.steps["g.hourly"]
        assert new.error == "its table is damaged"
        assert host.pulse.steps["g.hourly"]["error"] == new.error
        assert new.due == pytest.approx(time.monotonic() + pause, abs=10)
        assert not hosted.follow(asked, again=True), "not yet"
        new.due = 0.0
        hosted.follow(asked, again=False)
        assert hosted.steps["g.hourly"].error, "the source has ended: it is not tried again"
        hosted.follow(asked, again=True)
    assert tried == ["g.hourly"] * 3
    assert [*hosted.still] == []
    assert host.pulse.figures["stands_still"] is None
    assert hosted.follow(wanted([host.pipeline]), again=True)
    assert "g.hourly" not in host.pulse.steps


def test_of_steps_that_come_together_the_one_that_cannot_stands_still_alone(
    host: StreamHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(host, TOGETHER, Query(None, WAITING))
    running(host, APART, Query(None, WAITING))
    hosted, tried = host.hosted, list[list[str]]()
    some = [replace(host.pipeline.spec("hourly"), guest=name) for name in "gh"]
    asked = {**wanted([host.pipeline]), **{step.id: (TOGETHER, step) for step in some}}

    def add(_: LogQuery, steps: Sequence[StepSpec]) -> None:
        tried.append([step.id for step in steps])
        if "g.hourly" in tried[-1]:
            raise TerminalError("its table is damaged")

    monkeypatch.setattr(LogQuery, "add", add)
    assert hosted.follow(asked, again=True)
    assert tried == [["g.hourly", "h.hourly"], ["g.hourly"], ["h.hourly"]]
    assert [running.error for running in hosted.still] == ["its table is damaged"]
    assert not hosted.steps["h.hourly"].error
