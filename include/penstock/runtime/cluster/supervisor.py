"""The detached process that keeps a cluster: as many nodes as are wanted, at any time.

It brings about what a file says, and says in another how far it is. So whoever scales is never in
the way of whoever else does, and a kill at any point is mended by the next look.
"""

import logging
import logging.handlers
import os
import signal
import sys
import threading
from types import FrameType

from penstock.config.cluster import read_cluster
from penstock.config.settings import Settings
from penstock.control.nodes import DRAINING
from penstock.core.clock import SystemClock
from penstock.core.errors import PenstockError
from penstock.runtime.cluster.pool import NodePool, difference
from penstock.runtime.cluster.pools import pool_for
from penstock.runtime.cluster.state import ClusterFiles
from penstock.runtime.embedded import logfiles, privacy

log = logging.getLogger(__name__)

TEND_SECONDS = 0.5


class ClusterSupervisor:
    """Keeps the nodes of a pool until it is told to stop."""

    def __init__(self, files: ClusterFiles, pool: NodePool) -> None:
        self.files, self.pool = files, pool
        self.stop = threading.Event()
        self._said: object = None

    def run(self) -> None:
        """Open, keep, close."""
        try:
            self.pool.open()
            while not self.stop.wait(TEND_SECONDS):
                self.look()
        finally:
            self.pool.close()
            self._publish()

    def look(self) -> None:
        """One look: restart what died, add and drain what the wanted number asks for."""
        self.pool.tend()
        nodes = self.pool.nodes()
        goes = [node.name for node in nodes if node.state == DRAINING]
        stays = [node.name for node in nodes if node.state != DRAINING]
        wanted = self.files.wanted()
        add, drain = difference(len(stays) if wanted is None else wanted, stays, goes)
        for name in add:
            log.info("node comes name=%s", name)
            self.pool.add(name)
        for name in drain:
            log.info("node goes name=%s", name)
            self.pool.drain(name)
        self._publish()

    def _publish(self) -> None:
        nodes = self.pool.nodes()
        if self._said != nodes:
            try:
                self.files.publish(self.pool.url, nodes)
            except OSError:  # a full disk must not end what it can still keep alive
                log.exception("state not published")
                return
            self._said = nodes


def main() -> int:
    """Run with the lock's descriptor as the only argument; ``control.up`` does that."""
    os.set_inheritable(int(sys.argv[1]), False)
    os.umask(privacy.OWNER_ONLY)
    settings = Settings()
    logs = settings.logs / "cluster"
    logs.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        handlers=[
            logging.handlers.RotatingFileHandler(
                logs / "supervisor.log", maxBytes=logfiles.MAX_BYTES, backupCount=logfiles.BACKUPS
            )
        ],
    )
    try:
        pool = pool_for(settings, read_cluster(settings.cluster), SystemClock())
        supervisor = ClusterSupervisor(ClusterFiles(settings.home), pool)
    except PenstockError:
        log.exception("not started")
        return 1

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        supervisor.stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        supervisor.run()
    except PenstockError:
        log.exception("ended")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
