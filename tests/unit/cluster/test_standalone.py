"""A pool of Spark's own: what its processes are told, and a page that is somebody else's."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer

from penstock.config.cluster import Cluster, Master
from penstock.config.settings import Settings
from penstock.control.nodes import DEFAULTS
from penstock.core.clock import SystemClock
from penstock.runtime.cluster.standalone import Standalone, write_conf
from penstock.runtime.cluster.state import ClusterFiles


class Echo(BaseRequestHandler):
    """As a connection to a free port does that was given the same port: it hears itself."""

    heard = 0

    def handle(self) -> None:
        Echo.heard += 1
        self.request.sendall(self.request.recv(4_096))


@contextmanager
def echo() -> Iterator[int]:
    with TCPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_a_page_that_is_none_tells_of_no_worker(tmp_path: Path) -> None:
    with echo() as page:
        cluster = Cluster(master=Master(port=page - 1))
        pool = Standalone(Settings(home=tmp_path), cluster, SystemClock())
        write_conf(pool.files)
        pool.tend()
    assert Echo.heard == 1
    assert pool.nodes() == []


def test_what_executors_say_has_an_end(tmp_path: Path) -> None:
    files = ClusterFiles(tmp_path)
    write_conf(files)
    lines = dict(line.split(" ", 1) for line in (files.conf / DEFAULTS).read_text().splitlines())
    assert lines["spark.executor.logs.rolling.strategy"] == "size"
    assert int(lines["spark.executor.logs.rolling.maxRetainedFiles"]) > 0
