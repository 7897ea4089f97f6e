"""A stream that lives and takes nothing, or takes what was changed: what status says of it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from penstock.runtime.embedded import report
from penstock.runtime.streams import control
from penstock.runtime.streams.links import link, reasons
from penstock.runtime.streams.paths import StreamPaths, write_json
from tests.doubles import FixedClock

NOW = datetime(2024, 3, 1, 12, tzinfo=UTC)
SAYS = "nothing was taken for 15 min: live/a.jsonl: MemoryError: . ... penstock giveup p FILE"


@pytest.fixture
def stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamPaths:
    """A stream whose supervisor lives and speaks."""
    monkeypatch.setattr(control, "is_held", lambda _: True)
    paths = StreamPaths(tmp_path, "p")
    paths.supervisor_lock.touch()
    said = {"state": "running", "incarnation": 1, "at": NOW.isoformat()}
    write_json(paths.supervisor, said)
    return paths


def drives(paths: StreamPaths, **figures: Any) -> None:
    write_json(paths.driver, {"incarnation": 1, "state": "running"} | figures)


def shown(paths: StreamPaths) -> str:
    console = Console(width=400, record=True)
    report._show_streams(paths.folder, FixedClock(NOW), console)
    return console.export_text()


def test_a_stream_that_has_taken_nothing_for_long_fails(stream: StreamPaths) -> None:
    drives(stream, waits_for="live/a.jsonl: MemoryError", fails=None)
    known = control.status(stream, FixedClock(NOW))
    assert (known.state, known.wrong) == ("running", None)
    assert reasons(stream.folder, "p", "p") == {}
    assert "live/a.jsonl: MemoryError" in shown(stream)
    drives(stream, waits_for="live/a.jsonl: MemoryError", fails=SAYS)
    known = control.status(stream, FixedClock(NOW))
    assert (known.state, known.troubled, known.wrong) == ("failing", True, SAYS)
    assert reasons(stream.folder, "p", "p") == {"": SAYS}
    assert "failing" in shown(stream)
    assert SAYS in shown(stream)


def test_why_a_step_stands_still_is_a_reason_for_the_audit(stream: StreamPaths) -> None:
    drives(stream, steps={"hourly": {"error": "a sum overflows"}, "daily": {"block": 7}})
    assert reasons(stream.folder, "p", "p") == {"hourly": "a sum overflows"}
    assert link(stream, "g")
    assert reasons(stream.folder, "p", "p") is None, "its steps are not to run"
    assert reasons(stream.folder, "p", "g") == {"hourly": "a sum overflows"}


def test_changed_files_are_a_line_of_the_status(stream: StreamPaths) -> None:
    drives(stream, changed="2 files were changed after they were taken")
    assert "p: 2 files were changed after they were taken" in shown(stream)
    drives(stream, changed=None)
    assert "changed" not in shown(stream)


@pytest.mark.parametrize("log", ["gates-per_quarter", "sightings_of_aircraft-per_site"])
@pytest.mark.parametrize("width", [80, 160])
def test_no_terminal_cuts_a_figure(stream: StreamPaths, log: str, width: int) -> None:
    paths = StreamPaths(stream.folder, log)
    paths.supervisor_lock.touch()
    write_json(paths.supervisor, {"state": "running", "incarnation": 1, "at": NOW.isoformat(),
                                  "restarts": 2})  # fmt: skip
    drives(paths, steps={"per_site": {}, "per_plate": {}}, pid=4194304, block=1234567,
           records_per_second=123456.7, state_bytes=12_000_000_000)  # fmt: skip
    console = Console(width=width, record=True)
    report._show_streams(paths.folder, FixedClock(NOW), console)
    said = console.export_text()
    assert {"running", "4194304", "2", "1234567", "123456.7", "12000"} <= {*said.split()}
    assert "per_plate, per_site" in said
    assert max(map(len, said.splitlines())) <= width
    assert log in said
