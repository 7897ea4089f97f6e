"""Writes source files with random disorder, and beside them what is true of each record."""

import csv
import json
import random
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

from tests.soak.scene import IDLE_SECONDS, Scene
from tests.streams import BEGIN, HOUR, MINUTE, SECOND, instant, us

HISTORY = 20_000
SITES = [f"site {i:02}" for i in range(58)] + ["Žižkov, 3", 'a"b']
KINDS = ("blue", "green", "red", "white", "černá")
REPEATS_WITHIN_SECONDS = 20.0
"""Far below the id's horizon, whatever pause a fault makes."""
BAD: dict[str, Any] = {
    "malformed": '{"uid": 1, "site": "cut',
    "missing key": {"site": None},
    "not castable": {"value": "nine"},
    "missing event time": {"at": None},
    "event time ahead of arrival": {"at": "2199-01-01T00:00:00Z"},
    "event time before not_before": {"at": "1999-12-31T23:59:59Z"},
    "NaN or infinity": {"value": "Infinity"},
}
"""Reason of refusal -> the line, or what is wrong with an otherwise good record."""
Record = dict[str, Any]


class Feeder(threading.Thread):
    """Feeds until it is told to stop; the same seed gives the same files, as far as it comes.

    Attributes:
        sent: records put into the source so far, history and bad ones included.
        written: instants (seconds since the epoch) at which files appeared.
    """

    def __init__(self, scene: Scene, seed: int) -> None:
        super().__init__(name="feeder", daemon=True)
        self.scene, self.draw = scene, random.Random(f"feeder {seed}")  # noqa: S311
        self.sent, self.uid, self.files = 0, 0, 0
        self.newest = float(us(BEGIN))
        self.written: list[float] = []
        self.failed: BaseException | None = None
        self._ending = threading.Event()
        self._recent: deque[tuple[float, Record]] = deque()
        for folder in (scene.live, scene.history):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def truth(self) -> Path:
        return self.scene.home / "truth.csv"

    @property
    def refused(self) -> Path:
        return self.scene.home / "refused.csv"

    def write_history(self) -> None:
        """The ten hours before the stream."""
        self.newest -= 10 * HOUR
        for number in range(4):
            self._write(self.scene.history / f"{number:02}.jsonl", self._some(HISTORY // 4, 1.8))
        self._recent.clear()

    def run(self) -> None:
        try:
            while not self._ending.is_set():
                self._ending.wait(self._feed())
        except BaseException as failed:  # noqa: BLE001  the main thread ends the run with it
            self.failed = failed

    def end(self) -> None:
        self._ending.set()
        self.join()

    def _feed(self) -> float:
        """One file; returns the pause after it, s."""
        chance = self.draw.random()
        if chance < 0.03:
            return self.draw.uniform(1.2 * IDLE_SECONDS, 2.5 * IDLE_SECONDS)
        count, pause, held = self.draw.randint(1, 320), self.draw.uniform(0.2, 1.6), 0
        if chance < 0.09:
            count, pause = self.draw.randint(3_000, 8_000), 0.0
        elif chance < 0.14:  # what an outage somewhere held back
            held = int(self.draw.uniform(5 * MINUTE, 3 * HOUR))
        elif chance < 0.16:
            self.newest += self.draw.uniform(5, 30) * MINUTE
        self.files += 1
        self._write(self.scene.live / f"{self.files:06}.jsonl", self._some(count, 0.2, held))
        return pause

    def _some(self, count: int, apart: float, held: int = 0) -> list[tuple[Record | str, str]]:
        """Records with the reason for which each is to be refused; none: an empty text."""
        out: list[tuple[Record | str, str]] = []
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - REPEATS_WITHIN_SECONDS:
            self._recent.popleft()
        for _ in range(count):
            chance = self.draw.random()
            record = self._record(apart, held)
            if chance < 0.01 and self._recent:
                again = self.draw.choice(self._recent)[1]
                out.append((again | {"amount": 1_000_000}, "repeated id"))
            elif chance < 0.02:
                reason = self.draw.choice(list(BAD))
                wrong = BAD[reason]
                out.append((wrong if isinstance(wrong, str) else record | wrong, reason))
            else:
                out.append((record, ""))
                if self.draw.random() < 0.1:
                    self._recent.append((now, record))
        return out

    def _record(self, apart: float, held: int) -> Record:
        self.uid += 1
        self.newest += self.draw.expovariate(1 / (apart * SECOND))
        lag = self.draw.expovariate(1 / (20 * SECOND))
        if self.draw.random() < 0.03:
            lag += self.draw.uniform(0, 90 * MINUTE)
        return {
            "uid": self.uid,
            "site": SITES[int(len(SITES) * self.draw.random() ** 2)],
            "kind": self.draw.choice(KINDS),
            "value": self.draw.choice([None, 0.1, -0.0, self.draw.gauss(0, 1e3), 1e12]),
            "amount": self.draw.randint(-20, 100),
            "at": instant(int(self.newest - lag - held)).isoformat(),
        }

    def _write(self, path: Path, some: list[tuple[Record | str, str]]) -> None:
        with self.truth.open("a", newline="") as good, self.refused.open("a", newline="") as bad:
            truth, refused = csv.writer(good), csv.writer(bad)
            for line, (record, reason) in enumerate(some, 1):
                if reason:
                    refused.writerow([f"{path}: line {line}", reason])
                else:
                    truth.writerow(record.values())  # type: ignore[union-attr]
        lines = [r if isinstance(r, str) else json.dumps(r) for r, _ in some]
        hidden = path.with_name(f".{path.name}")
        hidden.write_text("\n".join(lines) + "\n", encoding="utf-8")
        hidden.rename(path)
        self.sent += len(some)
        self.written.append(time.time())
