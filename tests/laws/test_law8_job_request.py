"""Law 8: a request survives the command line."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.request import Job, JobRequest

pytestmark = pytest.mark.law

zones = st.integers(-86_399, 86_399).map(lambda s: timezone(timedelta(seconds=s)))
first, last = datetime(1, 1, 3), datetime(9999, 12, 28)  # noqa: DTZ001  zones are drawn
instants = st.datetimes(first, last, timezones=zones | st.just(UTC))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(
    request=st.builds(
        JobRequest,
        job=st.sampled_from(Job),
        run_id=texts,
        pipeline=st.none() | texts,
        digest=st.none() | texts,
        start=st.none() | instants,
        end=st.none() | instants,
        recheck=st.booleans(),
        everything=st.booleans(),
    )
)
def test_from_argv_gives_back_what_to_argv_said(request: JobRequest) -> None:
    assert JobRequest.from_argv(request.to_argv()) == request


def test_a_request_asks_for_nothing_by_itself() -> None:
    argv = ["--job=audit", "--run-id=x"]
    assert JobRequest(Job.AUDIT, "x").to_argv() == argv
    assert JobRequest.from_argv(argv) == JobRequest(Job.AUDIT, "x")


@pytest.mark.parametrize("argv", [
    ["--job=dance", "--run-id=x"],
    ["--run-id=x"],
    ["--job=audit"],
    ["--job=audit", "--run-id=x", "--start=2024-01-01T00:00:00"],
    ["--job=audit", "--run-id=x", "--pipe=y"],
])  # fmt: skip
def test_a_malformed_command_line_is_refused(argv: list[str], capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        JobRequest.from_argv(argv)
    assert "usage:" in capsys.readouterr().err


def test_an_instant_without_a_zone_is_told_how_to_write_it(capsys) -> None:
    with pytest.raises(SystemExit):
        JobRequest.from_argv(["--job=audit", "--run-id=x", "--end=2024-01-01T00:00:00"])
    assert "write it as 2024-01-01T00:00:00+00:00" in capsys.readouterr().err
