"""The stream runner: keeps a supervisor for every stream that is wanted, on its own host.

``python -m penstock.runtime.streams.runner``. Where Airflow's processes live in other containers,
they only write wishes (``wish.py``). One runner works; another one waits for its end. Locks and
files lie in a folder that all of them see; processes are only ever looked for here.
"""

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from types import FrameType

from penstock.config.settings import Settings
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import PenstockError
from penstock.runtime.streams import control
from penstock.runtime.streams.paths import StreamPaths, is_held, read_json, take_lock, write_json
from penstock.runtime.streams.wish import RUNNER_LOCK, RUNNER_WORD, Wish, read_wish

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
STOP_SECONDS = 100.0
"""A supervisor kills a driver that has not stopped after 90 s."""


class Runner:
    """Sees once a second that what runs is what is wanted.

    Args:
        folder: ``settings.streams``.
        clock: dates what it says.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._refused: dict[str, str] = {}
        self.stop = threading.Event()

    def run(self) -> None:
        """Until a stop is asked for; then every stream is stopped, and stays wanted."""
        self._folder.mkdir(parents=True, exist_ok=True)
        lock = self._turn()
        if lock is None:
            return
        log.info("keeping the streams folder=%s", self._folder)
        try:
            while not self.stop.is_set():
                self._say()
                for name in control.names(self._folder):
                    self._look(StreamPaths(self._folder, name))
                self.stop.wait(LOOK_SECONDS)
            for name in control.stop_all(self._folder, STOP_SECONDS):
                log.warning("killed stream=%s; it goes on from its last sealed position", name)
        finally:
            os.close(lock)

    def _turn(self) -> int | None:
        """The runners' lock, once no other one holds it; None: a stop came first."""
        lock = take_lock(self._folder / RUNNER_LOCK)
        if lock is None:
            log.info("another runner keeps the streams: waiting for its end")
        while lock is None and not self.stop.wait(LOOK_SECONDS):
            lock = take_lock(self._folder / RUNNER_LOCK)
        return lock

    def _look(self, paths: StreamPaths) -> None:
        wish = read_wish(paths)
        if is_held(paths.supervisor_lock):
            if wish is None and not paths.stop.exists():
                control.ask_to_stop(paths, "unwanted")
            return
        if wish is None or wish.is_spent(read_json(paths.supervisor)):
            return
        try:
            if control.ensure_supervisor(
                paths, wish.spec, lambda: _stands(paths, wish), wish.number
            ):
                log.info("started stream=%s wish=%s", paths.name, wish.number)
            self._refused.pop(paths.name, None)
        except (PenstockError, OSError) as wrong:
            if self._refused.get(paths.name) != str(wrong):
                log.warning("cannot start stream=%s error=%s; trying again", paths.name, wrong)
            self._refused[paths.name] = str(wrong)

    def _say(self) -> None:
        said = {"at": self._clock.now().isoformat(), "host": socket.gethostname(),
                "pid": os.getpid()}  # fmt: skip
        with contextlib.suppress(OSError):  # a full disk must not end what it can still keep
            write_json(self._folder / RUNNER_WORD, said)


def _stands(paths: StreamPaths, wish: Wish) -> bool:
    now = read_wish(paths)
    return now is not None and now.number == wish.number


def main() -> int:
    """Run until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    runner = Runner(Settings().streams.absolute(), SystemClock())

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        runner.stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    runner.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
