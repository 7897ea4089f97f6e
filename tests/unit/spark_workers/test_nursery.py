"""Workers are forks of one process that has imported everything."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.serializers import UTF8Deserializer, read_int

from penstock.spark import nursery
from penstock.spark.session import WORKER
from penstock.spark.worker import DAEMON_NURSERY

HERE = Path(__file__).parent
SECONDS = 60.0
TOLD = "what both sides know"


def environment(address: str, **more: str) -> dict[str, str]:
    paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {
        "WORKER_PYTHON": sys.executable,
        "WORKER_NURSERY": address,
        "PYTHONPATH": paths,
        **more,
    }


@pytest.fixture(scope="module")
def driver() -> Iterator["subprocess.Popen[str]"]:
    """A process that has started a nursery, and says where."""
    code = (
        "from penstock.spark import nursery;"
        "print(nursery.start(ARROW_DEFAULT_MEMORY_POOL='system')[0], flush=True); input()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment("")
    ) as process:
        yield process
        process.kill()


@pytest.fixture(scope="module")
def address(driver: "subprocess.Popen[str]") -> str:
    assert driver.stdout is not None
    return driver.stdout.readline().strip()


@pytest.fixture
def forked(address: str, tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[bytes]"]]:
    """Start what Spark starts."""
    started = []

    def start(*arguments: str, **more: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [str(WORKER), "-m", "told_worker", *arguments],
            env=environment(address, **more),
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def of(process: "subprocess.Popen[bytes]") -> dict[str, object]:
    """What a worker says of itself."""
    assert process.stdout is not None
    told: dict[str, object] = json.loads(process.stdout.readline())
    return told


def test_a_worker_has_what_it_was_started_with_and_the_imports_of_its_nursery(
    forked: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    process = forked("one", "two words", ONLY_HERE="ä")
    told = of(process)
    assert told["arguments"] == ["one", "two words"]
    assert (told["folder"], told["only_here"]) == (str(tmp_path), "ä")
    assert told["imported"] == ["pandas", "penstock.kinds.windowed.reducer", "pyspark.worker"]
    assert told["pid"] != process.pid
    assert psutil.Process(process.pid).children() == [], "a fork of the nursery's"


def test_nothing_but_memory_is_managed_by_threads_of_a_nursery(
    driver: "subprocess.Popen[str]", forked: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    """A fork has only the thread that made it: another's locks would be held for ever."""
    of(forked())  # it has imported everything
    [nurse] = psutil.Process(driver.pid).children()
    names = {Path(f"/proc/{nurse.pid}/task/{t.id}/comm").read_text() for t in nurse.threads()}
    assert {name.strip() for name in names} - {"jemalloc_bg_thd"} == {"python"}


@pytest.mark.parametrize(("ends", "code"), [("0", 0), ("7", 7), ("null", 0), ('"words"', 1)])
def test_an_exit_code_is_the_workers(
    ends: str, code: int, forked: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    process = forked()
    process.communicate(f"{ends}\n".encode(), timeout=SECONDS)
    assert process.returncode == code


def test_a_worker_that_is_killed_is_known_to_whoever_started_it(
    forked: Callable[..., "subprocess.Popen[bytes]"],
) -> None:
    process = forked()
    os.kill(int(str(of(process)["pid"])), signal.SIGKILL)
    assert process.wait(SECONDS) == 128 + signal.SIGKILL


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_whoever_ends_what_it_started_ends_the_worker(
    how: signal.Signals, forked: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    process = forked()
    worker = psutil.Process(int(str(of(process)["pid"])))
    process.send_signal(how)
    worker.wait(SECONDS)


def test_its_output_ends_with_the_worker(forked: Callable[..., "subprocess.Popen[bytes]"]) -> None:
    process = forked()
    of(process)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    assert process.stdout.read() == b"", "the end of its input reached it"


def test_a_worker_that_spark_waits_for_takes_over_the_call(
    forked: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(SECONDS)
        port = str(listening.getsockname()[1])
        process = forked(
            "called", PYTHON_WORKER_FACTORY_PORT=port, PYTHON_WORKER_FACTORY_SECRET=TOLD
        )
        called, _ = listening.accept()
    with called:
        called.settimeout(SECONDS)
        file = called.makefile("rwb", 65536)
        assert UTF8Deserializer().loads(file) == TOLD
        called.sendall(b"\0\0\0\2ok")
        assert read_int(file) == of(process)["pid"]
        assert read_int(file) == 4711


def test_many_at_once(forked: Callable[..., "subprocess.Popen[bytes]"]) -> None:
    processes = [forked(str(n)) for n in range(20)]
    assert [of(process)["arguments"] for process in processes] == [[str(n)] for n in range(20)]


def test_without_a_nursery_it_is_the_worker_itself(
    forked: Callable[..., "subprocess.Popen[bytes]"],
) -> None:
    process = forked("one", WORKER_NURSERY="/nowhere")
    told = of(process)
    assert (told["arguments"], told["pid"]) == (["one"], process.pid)


def test_a_daemon_on_a_node_has_imported_everything_before_it_forks(address: str) -> None:
    """It is no fork of the driver's nursery, which may be on another host."""
    more = {"PYTHON_WORKER_FACTORY_SECRET": TOLD, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    more[DAEMON_NURSERY] = ""  # a session of a test before left its own here
    with subprocess.Popen(
        [str(WORKER), "-m", "pyspark.daemon", "pyspark.worker"],
        env=environment(address, **more, **nursery.LIBRARIES),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert read_int(process.stdout), "the port at which it takes orders"
        mine = psutil.Process(process.pid)
        assert "libarrow" in Path(f"/proc/{mine.pid}/maps").read_text()
        assert "pyspark.daemon" in mine.cmdline()
        names = {Path(f"/proc/{mine.pid}/task/{t.id}/comm").read_text() for t in mine.threads()}
        assert {name.strip() for name in names} - {"jemalloc_bg_thd"} == {"python"}
        process.kill()


def test_a_nursery_ends_with_its_driver_even_a_killed_one() -> None:
    code = (
        "from penstock.spark import nursery; print(nursery.start()[0], flush=True);"
        "import os, signal; input(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(""),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip()).parent
        [nurse] = psutil.Process(process.pid).children()
        assert folder.stat().st_mode & 0o077 == 0, "nobody else may ask"
        process.communicate("\n", timeout=SECONDS)
    nurse.wait(SECONDS)
    assert not folder.exists()


def test_what_a_killed_nursery_has_left_is_removed_by_the_next_one() -> None:
    """Its socket refuses; of one that listens, or was made just now, nothing is touched."""
    short = Path(tempfile.mkdtemp(dir="/tmp"))  # an address has 108 characters at most
    listening = socket.socket(socket.AF_UNIX)
    folders = {name: short / f"{nursery.PREFIX}{name}" for name in ("left", "lives", "young")}
    for name, folder in folders.items():
        folder.mkdir()
        with socket.socket(socket.AF_UNIX) as closed:
            (listening if name == "lives" else closed).bind(str(folder / nursery.SOCKET))
        if name != "young":
            os.utime(folder, (1_700_000_000, 1_700_000_000))
    listening.listen()
    code = "from penstock.spark import nursery; nursery.start()"
    subprocess.run([sys.executable, "-c", code], env=environment("", TMPDIR=str(short)), check=True)
    names = {path.name.removeprefix(nursery.PREFIX) for path in short.iterdir()}
    assert "left" not in names
    assert {"lives", "young"} <= names
    listening.close()
    shutil.rmtree(short)


def test_a_request_that_never_comes_keeps_nobody_from_asking(
    address: str, forked: Callable[..., "subprocess.Popen[bytes]"]
) -> None:
    with socket.socket(socket.AF_UNIX) as broken:
        broken.connect(address)
        broken.shutdown(socket.SHUT_WR)
        assert of(forked("after"))["arguments"] == ["after"]


def test_a_process_has_one() -> None:
    (address, process), again = nursery.start(), nursery.start()
    assert again == (address, process)
    assert process.poll() is None
