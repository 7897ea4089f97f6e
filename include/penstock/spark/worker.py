"""A Python worker of Spark that calls back first and imports afterwards, or never.

Spark waits 10 seconds for the call, and the secret, of a worker that it starts on the driver (of a
source, of a stateful operator), and no setting of 4.2 changes that. Imports take a second of an
idle machine and half a minute of one at load 30: every start failed with "Python worker failed to
connect back". Until the call is made, nothing is imported but a little of the standard library.

Then the driver's nursery (``nursery.py``), which has imported everything once, forks the worker,
and this process only stands in for it: it ends as the worker ends. Where there is no nursery, it is
the worker itself. So is the daemon of an executor on a node, which forks the workers of its tasks:
it imports everything before the first.

Run as ``worker -m MODULE [ARGUMENT ...]``, as Spark runs ``python``; whatever else Spark asks of
its ``python``, as for its version, goes to the interpreter.
"""

import json
import os
import socket
import sys

SECONDS = 300.0
"""For Spark's answers, once it has been called."""
ACCEPTED = b"\0\0\0\2ok"
HANDED = 4
"""Most descriptors that are handed on: input, output, errors, and Spark's connection."""
CALLED = "WORKER_CALLED"
"""The environment of the worker itself: the descriptor of the connection that is there."""
DAEMON = "pyspark.daemon"
"""What forks the workers of tasks: in the driver's process, or in an executor's on a node."""
NURSERY, DAEMON_NURSERY = "WORKER_NURSERY", "WORKER_DAEMON_NURSERY"
"""The environment of all workers: who forks those on the driver, and who forks a daemon."""


def call_back(port: int, secret: str) -> socket.socket:
    """A connection to Spark, which waits for it, with the secret told."""
    address = "::1" if _told("SPARK_PREFER_IPV6") else "127.0.0.1"
    called = socket.create_connection((address, port), timeout=SECONDS)
    content = secret.encode()
    called.sendall(len(content).to_bytes(4, "big") + content)
    answer = b""
    while len(answer) < len(ACCEPTED) and (more := called.recv(len(ACCEPTED) - len(answer))):
        answer += more
    if answer != ACCEPTED:
        sys.exit(f"Spark refused this worker: {answer!r}")
    return called


def stand_in(nursery: socket.socket, arguments: list[str], called: socket.socket | None) -> int:
    """Have the worker forked, and wait for its end.

    Returns:
        Its exit code; 1: the nursery is gone, and whoever needs the worker asks for another one.
    """
    told = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109, TID251
    request = json.dumps(told, ensure_ascii=True).encode()
    handed = [0, 1, 2, *([] if called is None else [called.fileno()])]
    socket.send_fds(nursery, [len(request).to_bytes(4, "big")], handed)
    nursery.sendall(request)
    for each in handed[:2]:
        os.close(each)  # who waits for their end must not wait for this process
    if called is not None:
        called.close()
    code = nursery.recv(1)
    return code[0] if code else 1


def be(module: str, arguments: list[str], called: socket.socket | None) -> None:
    """Be the worker."""
    _without_archives()
    import runpy

    sys.argv = [sys.argv[0], *arguments]
    if called is not None:
        _use(called)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _use(called: socket.socket) -> None:
    """Let the worker's module take the connection that is there for the one it asks for."""
    from pyspark import worker_util

    port, connect = (
        int(_told("PYTHON_WORKER_FACTORY_PORT") or 0),
        worker_util.local_connect_and_auth,
    )
    waiting = [called]

    def connected(wanted, secret):  # type: ignore[no-untyped-def]
        if wanted != port or not waiting:
            return connect(wanted, secret)
        ours = waiting.pop()
        ours.settimeout(SECONDS)
        return ours.makefile("rwb", int(_told("SPARK_BUFFER_SIZE") or 65536)), ours

    worker_util.local_connect_and_auth = connected


def main(module: str, *arguments: str) -> None:
    """Call back if Spark waits for it, then stand in for the worker or be it."""
    if (descriptor := os.environ.pop(CALLED, None)) is not None:  # noqa: TID251  of the former process
        if module == DAEMON:
            _prepare()
        be(module, [*arguments], socket.socket(fileno=int(descriptor)) if descriptor else None)
        return
    port = int(_told("PYTHON_WORKER_FACTORY_PORT") or 0)
    called = call_back(port, _told("PYTHON_WORKER_FACTORY_SECRET") or "") if port else None
    with socket.socket(socket.AF_UNIX) as nursery:
        try:
            nursery.connect(_told(DAEMON_NURSERY if module == DAEMON else NURSERY) or "")
        except OSError:
            _again(called)
        sys.exit(stand_in(nursery, [module, *arguments], called))


def _again(called: socket.socket | None) -> None:
    """Be the worker in this very process, now with the packages of its environment."""
    if called is not None:
        called.set_inheritable(True)
    os.environ[CALLED] = "" if called is None else str(called.fileno())  # noqa: TID251  for itself
    os.execv(sys.executable, [sys.executable, "-P", *sys.argv])  # noqa: S606  itself


def _prepare() -> None:
    """Import for all whom this process will fork."""
    _without_archives()
    from penstock.spark.nursery import prepare

    prepare()


def _without_archives() -> None:
    """Spark puts its own first: without compiled files in them, each worker compiles all."""
    sys.path[:] = [path for path in sys.path if not path.endswith(".zip")]  # noqa: TID251


def _told(name: str) -> str | None:
    """What Spark says to its workers."""
    return os.environ.get(name)  # noqa: TID251  before anything of ours may be imported


if __name__ == "__main__":
    if sys.argv[1:2] != ["-m"]:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])  # noqa: S606  itself
    main(*sys.argv[2:])
