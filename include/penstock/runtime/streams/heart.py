"""The driver's side: says that it lives and how it fares, and learns when to stop."""

import logging
import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import TransientError
from penstock.runtime.streams.paths import StreamPaths, read_json, take_lock, write_json

log = logging.getLogger(__name__)


class DriverBusyError(TransientError):
    """Another driver of the same stream is alive."""

    def __init__(self, name: str, pid: object) -> None:
        self.name, self.pid = name, pid
        super().__init__(
            f"stream {name} already has a driver (process {pid}): a second one is never started."
            " Stop that one first: mark its Airflow task failed, or kill the process."
        )


class Heart:
    """Beats from entering to leaving the ``with`` block; enter before starting Spark.

    Holds the driver's lock, and writes the status file each ``period`` from a thread of its own.

        with Heart(StreamPaths(settings.streams, "flights")) as heart:
            while not heart.should_stop():
                ...
                heart.beat(step="per_site", block=17, records_per_second=30_000.0)
                heart.works(sealed=1)

    Args:
        paths: files of the stream.
        period: seconds between two beats.
        patience: seconds to wait for a former driver that is just ending.
        clock: for the instants in the status.
    """

    def __init__(
        self,
        paths: StreamPaths,
        *,
        period: float = 1.0,
        patience: float = 5.0,
        clock: Clock | None = None,
    ) -> None:
        self._paths, self._period, self._patience = paths, period, patience
        self._clock = clock or SystemClock()
        self._guard = threading.Lock()
        self._ending = threading.Event()
        self._stop: str | None = None
        self._terminated = False
        self._lock: int | None = None
        self._figures: dict[str, Any] = {}
        self._steps: dict[str, dict[str, Any]] = {}
        self._state, self._beats = "starting", 0

    def __enter__(self) -> Self:
        """Take the lock and begin to beat.

        Raises:
            DriverBusyError: another driver of this stream is alive.
        """
        self._paths.folder.mkdir(parents=True, exist_ok=True)
        self._lock = take_lock(self._paths.driver_lock, self._patience)
        if self._lock is None:
            pid = read_json(self._paths.driver).get("pid", "unknown")
            raise DriverBusyError(self._paths.name, pid)
        start = read_json(self._paths.start)
        self._supervised = start.get("supervisor") == os.getppid()
        self._parent = os.getppid()
        self._incarnation = int(start["incarnation"]) if self._supervised else 0
        if not self._supervised:  # started by hand: a stop request left behind is not meant for us
            self._paths.stop.unlink(missing_ok=True)
        self._started = self._clock.now().isoformat()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_sigterm)
        self._write()
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Say how it ended (an exception's text becomes ``error``) and give the lock back."""
        failed = error is not None and not (isinstance(error, SystemExit) and not error.code)
        self._ending.set()
        self._thread.join()
        self._state = "failed" if failed else "ended"
        if failed and not self._figures.get("error"):
            self._figures["error"] = f"{type(error).__name__}: {error}"
        self._write()
        if self._lock is not None:
            os.close(self._lock)

    def beat(self, *, step: str | None = None, **figures: Any) -> None:
        """Remember figures for the next status: plain numbers, strings, None; old ones stay.

        Args:
            step: whose figures they are (kept under ``steps``); none: the host's.
            figures: such as block, records, records_per_second, watermark, lag_seconds, error.
        """
        with self._guard:
            into = self._figures if step is None else self._steps.setdefault(step, {})
            into.update(figures)

    def forget(self, step: str) -> None:
        """Publish no more of a step."""
        with self._guard:
            self._steps.pop(step, None)

    def works(self, sealed: int) -> None:
        """Say that this life is of use: until then its state is ``starting``.

        Args:
            sealed: micro-batches it has sealed; 0: nothing waited to be.
        """
        with self._guard:
            self._state = "running"
            self._figures["sealed"] = sealed

    def fail(self, error: str) -> None:
        """Say why the driver is about to end, and beat no more.

        What still hangs on the way out (a query that does not stop) is killed by the supervisor
        when it has heard nothing for long enough; it then tells this error.
        """
        self._ending.set()
        with self._guard:
            self._state = "failed"
            self._figures["error"] = error
        self._write()

    def should_stop(self) -> bool:
        """Whether to finish the running micro-batch and end; cheap, ask often."""
        return self._look() is not None

    @property
    def stop_reason(self) -> str | None:
        """Why to stop: the request's reason, ``sigterm``, ``orphan``; none: go on."""
        return self._look()

    def wait(self, seconds: float) -> bool:
        """Sleep, but no longer than until a stop is asked for; whether it is."""
        until = time.monotonic() + seconds
        while not self.should_stop() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
        return self.should_stop()

    def _look(self) -> str | None:
        if self._stop is None:
            if self._paths.stop.exists():
                self._stop = str(read_json(self._paths.stop).get("reason", "unknown"))
            elif self._supervised and os.getppid() != self._parent:
                self._stop = "orphan"
            elif self._terminated:
                self._stop = "sigterm"
        return self._stop

    def _on_sigterm(self, _number: int, _frame: FrameType | None) -> None:
        self._terminated = True

    def _run(self) -> None:
        while not self._ending.wait(self._period):
            self._write()

    def _write(self) -> None:
        with self._guard:
            self._beats += 1
            content = {
                "pid": os.getpid(),
                "incarnation": self._incarnation,
                "beat": self._beats,
                "state": "stopping" if self._look() and self._state == "running" else self._state,
                "started": self._started,
                "at": self._clock.now().isoformat(),
                "stop": self._stop,
                **self._figures,
                "steps": self._steps,
            }
            try:
                write_json(self._paths.driver, content)
            except (OSError, TypeError) as wrong:
                log.warning(
                    "cannot write the heartbeat file=%s error=%s", self._paths.driver, wrong
                )
