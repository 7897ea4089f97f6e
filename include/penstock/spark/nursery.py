"""One process that imports everything once; Spark's Python workers are forks of it.

Each query needs workers of its own on the driver (of its source, of its state), each of its tasks
needs another, and each took a second of a core and 90 MB for the same imports. A fork takes
milliseconds, and shares them.

The driver starts it, and its end (of the pipe that is its standard input) is the nursery's. The
``worker`` that Spark starts sends ``{arguments, environment, folder}`` and its descriptors over a
socket that only this user reaches, and gets one byte, the exit code. Whoever ends the ``worker``
ends the fork.

Run as ``python -m penstock.spark.nursery FOLDER DESCRIPTOR`` of the listening socket within the
folder, which is removed at the end. One thread: a fork has only the thread that made it.
"""

import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from penstock.config.settings import child_environment
from penstock.core.kinds import KINDS
from penstock.spark import worker

PREFIX, SOCKET = "penstock-workers-", "workers"
LEFT_SECONDS = 60.0
"""A folder that is younger may be one whose nursery does not listen yet."""
REQUEST_SECONDS = 300.0
"""For a request to come whole; it is written at once, but on a busy machine that takes its time."""
IMPORTED = (
    "pandas",
    "penstock.spark.query",
    "penstock.lake.ingest.spread",
    "penstock.columns.expressions",
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
)
RUN = (
    "pyspark.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
)
"""What Spark runs as a program: what it imports is kept; itself is not, else running it warns."""
LIBRARIES = {"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
"""No threads before a fork; the seed is what Spark gives its workers."""


@cache
def start(**environment: str) -> tuple[str, "subprocess.Popen[bytes]"]:
    """This process's nursery, which ends with this process: its address, and itself.

    Args:
        environment: what libraries read when they are loaded.
    """
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    _clear(folder)
    address = str(folder / SOCKET)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        command = [sys.executable, "-P", "-m", __name__, str(folder), str(listening.fileno())]
        process = subprocess.Popen(  # noqa: S603  itself
            command,
            stdin=subprocess.PIPE,
            pass_fds=[listening.fileno()],
            env=child_environment(**LIBRARIES, **environment),
        )
    return address, process


def _clear(mine: Path) -> None:
    """Remove what nurseries that were killed have left beside this one's folder."""
    for folder in mine.parent.glob(f"{PREFIX}*"):
        with suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
            if mine.stat().st_mtime - folder.stat().st_mtime > LEFT_SECONDS:
                try:
                    asking.connect(str(folder / SOCKET))
                except ConnectionRefusedError:
                    shutil.rmtree(folder, ignore_errors=True)


class Nursery:
    """Forks a worker for each request, and tells each end."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._workers: dict[int, socket.socket] = {}
        self._ended, ended = socket.socketpair()
        for each in (self._ended, ended, listening):
            each.setblocking(False)
        self._kept = ended  # a wake-up is written to it
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver's to answer
        signal.set_wakeup_fd(ended.fileno(), warn_on_full_buffer=False)
        self._selector = selectors.DefaultSelector()
        for what in (0, listening, self._ended):
            self._selector.register(what, selectors.EVENT_READ)

    def run(self) -> None:
        """Return once the driver has ended."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == 0:
                    return
                if key.fileobj is self._listening:
                    self._answer()
                elif key.fileobj is self._ended:
                    self._reap()
                else:
                    self._abandon(key.data)

    def _answer(self) -> None:
        asking, _ = self._listening.accept()
        asking.settimeout(REQUEST_SECONDS)
        try:
            told, descriptors = received(asking)
        except (OSError, ValueError):
            asking.close()  # whoever asked has gone
            return
        pid = os.fork()
        if pid == 0:
            self._become(told, descriptors)
        for each in descriptors:
            os.close(each)
        self._workers[pid] = asking
        self._selector.register(asking, selectors.EVENT_READ, pid)

    def _reap(self) -> None:
        self._ended.recv(4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                asking = self._workers.pop(ended[0])
                code = os.waitstatus_to_exitcode(ended[1])
                with suppress(OSError):
                    asking.send(bytes([code if code >= 0 else 128 - code]))
                self._forget(asking)

    def _abandon(self, pid: int) -> None:
        """Whoever stood in for a worker has ended."""
        if pid in self._workers:
            self._forget(self._workers[pid])
            os.kill(pid, signal.SIGTERM)

    def _forget(self, asking: socket.socket) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(asking)
        asking.close()

    def _become(self, told: dict[str, Any], descriptors: list[int]) -> NoReturn:
        """Be the worker, which knows nothing of the nursery."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._selector.close()
            for each in (self._listening, self._ended, self._kept, *self._workers.values()):
                each.close()
            for target, descriptor in enumerate(descriptors[:3]):
                os.dup2(descriptor, target)
                os.close(descriptor)
            be(told, socket.socket(fileno=descriptors[3]) if descriptors[3:] else None)
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:  # noqa: BLE001  nothing may go on as the nursery
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code & 0xFF)


def received(asking: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A request and its descriptors: input, output, errors, and perhaps Spark's connection.

    Raises:
        OSError: it did not come.
        ValueError: it is none.
    """
    length, descriptors, _, _ = socket.recv_fds(asking, 4, worker.HANDED)
    with asking.makefile("rb") as file:
        told = json.loads(file.read(int.from_bytes(length, "big")))
    asking.setblocking(False)
    return told, descriptors


def be(told: dict[str, Any], called: socket.socket | None) -> None:
    """Run what was asked for, in its folder and environment."""
    os.chdir(told["folder"])
    os.environ.clear()  # noqa: TID251  Spark's to say
    os.environ.update(told["environment"])  # noqa: TID251
    paths = told["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]  # noqa: TID251
    module, *arguments = told["arguments"]
    worker.be(module, arguments, called)


def prepare() -> None:
    """Import what workers need, so that forks have it."""
    frames = (f"penstock.kinds.{kind}.frame" for kind in KINDS)  # else asked for by name alone
    for module in (*IMPORTED, *RUN, *frames):
        importlib.import_module(module)
    for module in RUN:
        del sys.modules[module]
    gc.collect()
    gc.freeze()  # the collector would write to what the forks share


def main(folder: str, descriptor: str) -> None:
    """Import, then answer until the driver has ended."""
    try:
        prepare()
        Nursery(socket.socket(fileno=int(descriptor))).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # what it only imported for others has nothing to say at its end
