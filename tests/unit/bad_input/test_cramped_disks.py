"""A disk that is full or read-only stops ingest with an error, and loses and doubles nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

from penstock.config.settings import Settings
from tests.unit.bad_input.cramped import EACH, FILES


def test_ingest_goes_on_once_there_is_room_and_leave_to_write(tmp_path: Path) -> None:
    root = Settings().root
    path = os.pathsep.join(str(root / part) for part in ("include", "plugins", "."))
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", sys.executable, "-m",
         "tests.unit.bad_input.cramped", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    full = [text for name, text in found["said"].items() if name.startswith("full")]
    assert all("No space left" in text for text in full), found
    assert all(text.startswith("UnwrittenError: ") and "free room" in text for text in full), found
    assert "panicked" not in done.stderr
    assert "Read-only file system" in found["said"]["tables read-only"], found
    assert found["said"]["source read-only"] == "", "it is only read"
    assert (found["accepted"], found["refused"]) == (FILES * (EACH - 1), FILES)
