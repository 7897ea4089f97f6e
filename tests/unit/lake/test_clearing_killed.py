"""A source that removes its files, killed with -9 at any point: every record counts once."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.config.settings import Settings
from penstock.lake.ingest import source
from penstock.lake.ingest.through import run_through
from penstock.lake.log.blocks import LIVE
from tests.crash.points import read_trace
from tests.gates import Gate, T
from tests.rarely import rare

OLD = 1_700_000_000
POINTS = [
    "within ingest plans", "after ingest events", "within ingest blocks", "after ingest blocks",
    "before archived", "after archived", "before cleared", "within cleared", "after cleared",
]  # fmt: skip


def gate(home: Path, after: str) -> Gate:
    where = {"archive": "archive"} if after == "archive" else {}
    return Gate(home, "jsonl", source={"after": after, "mode": "bounded"} | where)


def run(home: str, after: str) -> None:
    """The process that is killed: a door that takes what waits."""
    source.FILES_PER_PLAN = 3
    run_through(gate(Path(home), after).door(), LIVE, None, None)


class Life:
    """Files come, are taken, and go; the oracle is the list of what was written."""

    def __init__(self, home: Path, after: str, seed: int) -> None:
        self.home, self.after = home, after
        self.draw = random.Random(seed)  # noqa: S311
        self.written: list[int] = []
        self.files: dict[str, str] = {}
        self.unread: set[int] = set()
        self.number = 0
        for name in ("live", "archive"):
            (home / name).mkdir()

    def come(self) -> None:
        """New files, with names of their own."""
        for _ in range(self.draw.randint(1, 6)):
            codes = [len(self.written) + k for k in range(self.draw.randint(1, 4))]
            text = "".join(
                f"{json.dumps({'event_time': T, 'site': 'x', 'code': c})}\n" for c in codes
            )
            name = f"{self.draw.choice(['', 'a/', 'b/c/'])}{self.number:04}.jsonl"
            self.number += 1
            path = self.home / "live" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{path.name}")
            draft.write_text(text)
            os.utime(draft, (OLD + self.number, OLD + self.number))
            draft.rename(path)
            self.written += codes
            self.files[name] = text

    def appended(self) -> None:
        """Somebody goes on with a file that lies there: what is behind may be read or not."""
        some = sorted(name for name in self.lying("live") if ".penstock" not in name)
        if some:
            path = self.home / "live" / self.draw.choice(some)
            code = 1_000_000 + self.number
            line = f"{json.dumps({'event_time': T, 'site': 'x', 'code': code})}\n"
            path.write_text(path.read_text() + line)
            self.unread.add(code)
            self.files[str(path.relative_to(self.home / "live"))] += line

    def door(self, point: str | None) -> None:
        """A process, killed at a point if it comes there."""
        trace = self.home / f"{self.number}.trace"
        times = self.draw.randint(1, 3)
        kills = {"PENSTOCK_CRASH_TRACE": str(trace), "PENSTOCK_CRASH_AT": f"{point}:{times}"}
        code = (
            "import sys; from tests.unit.lake.test_clearing_killed import run; run(*sys.argv[1:])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(self.home), self.after], check=False,
            env={**os.environ, **(kills if point else {})}, start_new_session=True,
            capture_output=True, text=True, cwd=Settings().root, timeout=120,
        )  # fmt: skip
        assert done.returncode in ({0, -signal.SIGKILL} if point else {0}), done.stderr[-3_000:]
        if done.returncode:
            assert [each.point for each in read_trace(trace)].count(str(point)) == times
        trace.unlink(missing_ok=True)

    def lying(self, folder: str) -> dict[str, str]:
        """Files by their paths from a folder, hidden ones too, with what is in them."""
        base = self.home / folder
        files = (path for path in base.rglob("*") if path.is_file())
        return {str(path.relative_to(base)): path.read_text() for path in files}

    def check(self, *, ended: bool) -> None:
        """No record is lost: it was received, or its file lies there."""
        found = gate(self.home, self.after)
        received = Counter(row["code"] for row in found.rows("events"))
        assert all(times == 1 for times in received.values())
        live, archive = self.lying("live"), self.lying("archive")
        texts = [*live.values(), *archive.values()]
        lines = {json.loads(line)["code"] for text in texts for line in text.splitlines()}
        every = {*self.written} | {*self.unread}
        assert every <= received.keys() | lines
        assert self.after == "delete" or every <= lines, "nothing is deleted"
        if ended:
            found.conserved()
            assert {*self.written} <= received.keys()
            assert all(any(str(code) in text for code in self.unread) for text in live.values())
            assert self.after == "delete" or live.keys() | archive.keys() == self.files.keys()
            assert all(text == self.files[name] for name, text in (live | archive).items())


@pytest.mark.parametrize("after", ["archive", rare("delete")])
@pytest.mark.parametrize("seed", [0, *(rare(n) for n in (1, 2))])
def test_whatever_is_killed_every_record_counts_once_and_no_file_goes_unread(
    tmp_path: Path, after: str, seed: int
) -> None:
    life = Life(tmp_path, after, seed)
    for _ in range(5):
        life.come()
        life.door(life.draw.choice(POINTS))
        life.check(ended=False)
        if life.draw.random() < 0.4:
            life.appended()
    life.door(None)
    life.door(None)
    life.check(ended=True)
