"""How far a history has been taken in is said now and then, with what is left."""

import logging
from pathlib import Path

import pytest

from penstock.lake.ingest import source, through
from penstock.lake.ingest.through import EVERY, Progress
from tests.lakes import fed, some_rows
from tests.streams import write_jsonl


def test_records_rate_and_what_is_left_are_said_every_few_seconds() -> None:
    now, left = 0.0, (10, 10_000_000)
    progress = Progress(lambda: left, lambda: now)
    said = []
    for second in range(1, 11):
        now, left = float(second), (10 - second, (10 - second) * 1_000_000)
        said.append(progress.told(second * 1_000))
    assert [bool(each) for each in said] == [second % EVERY == 0 for second in range(1, 11)]
    assert said[4] == "5,000 records taken in, 1,000 a second; 5 files wait, 5 MB, about 5 s"
    assert said[9] == "10,000 records taken in, 1,000 a second"


def test_what_is_no_folder_has_no_rest_to_tell() -> None:
    now = 0.0
    progress = Progress(lambda: (0, 0), lambda: now)
    now = 10.0
    assert progress.told(500) == "500 records taken in, 50 a second"


def test_a_history_of_many_files_is_told_file_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(source, "FILES_PER_PLAN", 1)
    monkeypatch.setattr(through, "EVERY", 0.0)
    lake = fed(tmp_path)
    for number in range(4):
        write_jsonl(tmp_path / "history" / f"{number}.jsonl", some_rows(10, number))
    with caplog.at_level(logging.INFO, "penstock.lake.ingest.through"):
        lake.ingest("history")
    told = [r.getMessage() for r in caplog.records if r.name == "penstock.lake.ingest.through"]
    assert len(told) == 4
    assert "history: 40 records taken in" in told[-1]
    assert ["files wait" in line for line in told] == [True, True, True, False]
