"""The detached process that keeps embedded mode alive.

It holds the instance's lock, brings up PostgreSQL and Airflow's four processes as its children,
restarts what dies or hangs, publishes what it knows, and on SIGTERM stops all of them in order.
"""

import logging
import logging.handlers
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from types import FrameType

from penstock.config.settings import Settings
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import PenstockError
from penstock.runtime.embedded import logfiles, metadata, privacy
from penstock.runtime.embedded.airflow_environment import (
    airflow_environment,
    base_url,
    project_environment,
)
from penstock.runtime.embedded.child import Child, ChildSpec
from penstock.runtime.embedded.instance import Instance, InstanceState
from penstock.runtime.embedded.liveness import Liveness, heartbeats
from penstock.runtime.embedded.metadata import StopRequestedError
from penstock.runtime.embedded.postgres import Postgres
from penstock.runtime.embedded.processes import ProcessIdentity, identify

logger = logging.getLogger(__name__)

_TEND_SECONDS = 0.5
_DATABASE_SECONDS = 60.0
_LISTEN_SECONDS = 10.0
_PRUNE_EVERY = timedelta(hours=1)
_KEEP_LOGS = timedelta(days=14)
# A task that runs may end within the scheduler's grace; after it, it is ended by force, and
# Airflow runs it again after the next start. Its jobs are made for that.
_AIRFLOW = {
    "api-server": ((), timedelta(seconds=10)),
    "scheduler": (("--skip-serve-logs",), timedelta(seconds=20)),
    "dag-processor": ((), timedelta(seconds=10)),
    "triggerer": (("--skip-serve-logs",), timedelta(seconds=15)),
}
# Whom to ask, then for whom to wait: tasks report to the api-server until the scheduler is gone;
# the triggerer takes ten seconds whatever it does.
_STOP_ORDER = (
    (("scheduler", "dag-processor", "triggerer"), ("scheduler", "dag-processor")),
    (("api-server",), ("api-server", "triggerer")),
    (("postgres",), ("postgres",)),
)


class Supervisor:
    """Starts, tends and stops the processes of one instance."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._instance = Instance(settings.home)
        self._since = clock.now().isoformat()
        self._children: dict[str, Child] = {}
        self._phase, self._detail = "starting", "starting PostgreSQL"
        self._prune_due = self._listen_due = 0.0
        self.stop = threading.Event()

    def run(self) -> int:
        """Until a stop is asked for; 0 after an orderly end, 1 when the start failed."""
        failure = ""
        try:
            self._bring_up()
            self._tend()
        except StopRequestedError:
            logger.info("stopped during the start")
        except PenstockError as error:
            logger.error("start failed error=%s", error)  # noqa: TRY400 the message is complete
            failure = str(error)
        except Exception as error:
            logger.exception("supervisor failed")
            failure = f"internal error: {error!r}. See {self._settings.logs / 'supervisor.log'}"
        finally:
            self._publish("stopping", "")
            self._stop_children()
        self._publish("failed" if failure else "stopped", failure)
        return 1 if failure else 0

    def _bring_up(self) -> None:
        settings = self._settings
        self._publish("starting", "starting PostgreSQL")
        database = Postgres(settings.postgres)
        plain = project_environment(settings)
        database.prepare(plain)
        self._start(database.spec(plain))
        environment = airflow_environment(settings, database.url(metadata.DATABASE))
        metadata.wait_ready(database, self.stop, _DATABASE_SECONDS)
        self._publish("starting", "preparing Airflow's database")
        stamp = settings.airflow_home / "schema.json"
        metadata.migrate(database, stamp, environment, self._log("migrate"), self.stop)
        metadata.ensure_pool(database)
        for name, (arguments, grace) in _AIRFLOW.items():
            command = (sys.executable, "-m", "airflow", name, *arguments)
            self._start(ChildSpec(name, command, environment, settings.airflow_home, grace))
        self._publish("running", "")

    def _tend(self) -> None:
        database = Postgres(self._settings.postgres)
        liveness = Liveness(lambda: heartbeats(database), time.monotonic)
        while not self.stop.wait(_TEND_SECONDS):
            if time.monotonic() > self._listen_due:
                self._listen_due = time.monotonic() + _LISTEN_SECONDS
                self._end_the_silent(liveness)
            changed = [child.tend() for child in self._children.values()]
            if any(changed):
                self._publish("running", "")
            if time.monotonic() > self._prune_due:
                self._prune_due = time.monotonic() + _PRUNE_EVERY.total_seconds()
                oldest = self._clock.now() - _KEEP_LOGS
                logfiles.prune(self._settings.logs / "airflow", before=oldest.timestamp())

    def _end_the_silent(self, liveness: Liveness) -> None:
        pids = {name: child.pid for name, child in self._children.items()}
        for name, seconds in liveness.silent(pids).items():
            logger.warning("hangs, killed name=%s no_heartbeat_seconds=%.0f", name, seconds)
            self._children[name].kill()

    def _stop_children(self) -> None:
        for asked, awaited in _STOP_ORDER:
            for child in self._present(asked):
                child.request_stop()
            started = time.monotonic()
            for child in self._present(awaited):
                child.finish_stop(started + child.spec.grace.total_seconds())
                self._children.pop(child.spec.name)
                self._publish("stopping", "")

    def _present(self, names: tuple[str, ...]) -> list[Child]:
        return [self._children[name] for name in names if name in self._children]

    def _start(self, spec: ChildSpec) -> None:
        if self.stop.is_set():
            raise StopRequestedError("stopped during the start")
        child = Child(spec, self._log(spec.name), self._clock)
        self._children[spec.name] = child
        child.start()
        self._publish(self._phase, self._detail)

    def _log(self, name: str) -> logfiles.RotatingLog:
        return logfiles.RotatingLog(self._settings.logs / f"{name}.log")

    def _publish(self, phase: str, detail: str) -> None:
        self._phase, self._detail = phase, detail
        try:
            self._instance.publish(
                InstanceState(
                    phase=phase,
                    detail=detail,
                    url=base_url(self._settings),
                    since=self._since,
                    supervisor=identify(os.getpid()) or ProcessIdentity(os.getpid(), ""),
                    processes=tuple(child.state for child in self._children.values()),
                )
            )
        except OSError:  # a full disk must not end what it can still keep alive
            logger.exception("state not published")


def main() -> int:
    """Run with the lock's descriptor as the only argument; ``embedded.up`` does that."""
    os.set_inheritable(int(sys.argv[1]), False)
    os.umask(privacy.OWNER_ONLY)
    settings = Settings()
    settings.logs.mkdir(parents=True, exist_ok=True)
    settings.airflow_home.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        handlers=[
            logging.handlers.RotatingFileHandler(
                settings.logs / "supervisor.log",
                maxBytes=logfiles.MAX_BYTES,
                backupCount=logfiles.BACKUPS,
            )
        ],
    )
    supervisor = Supervisor(settings, SystemClock())

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        supervisor.stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
