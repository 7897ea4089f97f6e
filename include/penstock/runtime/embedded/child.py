"""A supervised child process: started in a session of its own, restarted when it dies."""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from penstock.core.clock import Clock
from penstock.runtime.embedded.instance import ProcessState
from penstock.runtime.embedded.logfiles import RotatingLog
from penstock.runtime.embedded.processes import ProcessIdentity, identify, kill_session, send

logger = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 30.0
_HEALTHY_AFTER_SECONDS = 60.0  # a child that lived so long starts its backoff anew


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What to run and how to stop it."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    grace: timedelta  # from the gentle signal to SIGKILL
    stop_signal: int = signal.SIGTERM
    user: str | None = None  # run as, only when the supervisor is root


class Child:
    """One child: at most one process at a time, its whole session is gone before the next."""

    def __init__(self, spec: ChildSpec, log: RotatingLog, clock: Clock) -> None:
        self.spec = spec
        self.log = log
        self.restarts = 0
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._identity: ProcessIdentity | None = None
        self._exit_code: int | None = None
        self._failures = 0  # in a row
        self._started_at = 0.0  # monotonic
        self._start_due = 0.0  # monotonic
        self._since = ""

    def start(self) -> None:
        """Start the process."""
        output = self.log.pipe()
        try:
            self._process = subprocess.Popen(
                self.spec.command,
                env=dict(self.spec.environment),
                cwd=self.spec.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.spec.user,
                group=self.spec.user,
                extra_groups=None if self.spec.user is None else [],
            )
        finally:
            os.close(output)
        self._identity = identify(self._process.pid)
        self._started_at = time.monotonic()
        self._since = self._clock.now().isoformat()
        logger.info("started name=%s pid=%s", self.spec.name, self._process.pid)

    def tend(self) -> bool:
        """Notice a death, restart when it is due; True when something changed."""
        if self._process is None:
            if time.monotonic() < self._start_due:
                return False
            self.restarts += 1
            self.start()
            return True
        code = self._process.poll()
        if code is None:
            return False
        self._bury(code)
        if time.monotonic() - self._started_at > _HEALTHY_AFTER_SECONDS:
            self._failures = 0
        pause = min(_FIRST_WAIT_SECONDS * 2**self._failures, _LONGEST_WAIT_SECONDS)
        self._failures += 1
        self._start_due = time.monotonic() + pause
        logger.warning(
            "died name=%s exit_code=%s restart_in_seconds=%s", self.spec.name, code, pause
        )
        return True

    def kill(self) -> None:
        """End the process by force; ``tend`` starts it again."""
        if self._process is not None:
            self._process.kill()

    def request_stop(self) -> None:
        """Ask the process to end."""
        if self._process is not None and self._process.poll() is None:
            send(self._process.pid, self.spec.stop_signal)

    def finish_stop(self, deadline: float) -> None:
        """Wait for the end, at most until ``deadline`` (monotonic), then end it by force."""
        if self._process is None:
            return
        try:
            code = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            logger.warning("killed name=%s after_seconds=%s", self.spec.name, self.spec.grace)
            self._process.kill()
            code = self._process.wait()
        self._bury(code)
        logger.info("stopped name=%s exit_code=%s", self.spec.name, code)

    @property
    def pid(self) -> int | None:
        """Of the process; none: there is none."""
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process runs now."""
        return self._process is not None and self._process.poll() is None

    @property
    def state(self) -> ProcessState:
        """What to publish."""
        return ProcessState(
            name=self.spec.name,
            status="running" if self._process is not None else "waiting",
            identity=self._identity,
            restarts=self.restarts,
            failures=self._failures,
            since=self._since,
            exit_code=self._exit_code,
            log=str(self.log.path),
            stop_signal=self.spec.stop_signal,
        )

    def _bury(self, code: int) -> None:
        # What a dead leader leaves behind (task processes, JVMs) would run beside its successor.
        if self._identity is not None:
            kill_session(self._identity)
        self._process, self._identity, self._exit_code = None, None, code
