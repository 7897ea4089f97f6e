import json
import os
import stat
import subprocess
import sys
from pathlib import Path

from penstock.runtime.embedded.credentials import Keys, ensure_passwords
from penstock.runtime.embedded.instance import Instance, InstanceState, ProcessState
from penstock.runtime.embedded.logfiles import RotatingLog, prune, tail
from penstock.runtime.embedded.processes import ProcessIdentity, identify


def me() -> ProcessIdentity:
    found = identify(os.getpid())
    assert found is not None
    return found


def state(supervisor: ProcessIdentity) -> InstanceState:
    child = ProcessState(
        name="scheduler",
        status="running",
        identity=ProcessIdentity(7, "boot/1"),
        restarts=2,
        failures=1,
        since="2013-10-01T00:00:00+00:00",
        exit_code=None,
        log="scheduler.log",
        stop_signal=15,
    )
    return InstanceState(
        phase="running",
        detail="",
        url="http://127.0.0.1:1",
        since="2013-10-01T00:00:00+00:00",
        supervisor=supervisor,
        processes=(child,),
    )


def test_a_log_keeps_the_newest_lines_within_its_bound(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "a.log", max_bytes=100, backups=2)
    for number in range(100):
        log.write(f"line {number:04}\n".encode())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "a.log.1", "a.log.2"]
    assert all(path.stat().st_size <= 100 for path in tmp_path.iterdir())
    assert log.tail(2) == "line 0098\nline 0099"
    kept = "".join((tmp_path / name).read_text() for name in ("a.log.2", "a.log.1", "a.log"))
    assert kept.splitlines() == sorted(kept.splitlines())


def test_a_log_goes_on_where_the_former_process_stopped(tmp_path: Path) -> None:
    RotatingLog(tmp_path / "a.log").write(b"old\n")
    RotatingLog(tmp_path / "a.log").write(b"new\n")
    assert tail(tmp_path / "a.log", 5) == "old\nnew"


def test_prune_removes_old_files_and_the_folders_they_leave_empty(tmp_path: Path) -> None:
    old, young = tmp_path / "run=1" / "old.log", tmp_path / "run=2" / "young.log"
    for path in (old, young):
        path.parent.mkdir()
        path.touch()
    for path in (old, young.parent):
        os.utime(path, (1000, 1000))
    assert prune(tmp_path, before=2000) == 1
    assert not old.exists()
    assert young.exists()
    os.utime(old.parent, (1000, 1000))
    prune(tmp_path, before=2000)
    assert not old.parent.exists()


def test_what_is_published_is_read(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    instance.folder.mkdir()
    instance.publish(state(me()))
    assert instance.read() == state(me())
    assert state(me()).lives
    assert not state(ProcessIdentity(os.getpid(), "another-boot/1")).lives


def test_a_state_that_is_damaged_or_of_another_version_counts_as_none(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    assert instance.read() is None
    instance.folder.mkdir()
    for text in ("", "{", '{"phase": "running"}', "[]"):
        (instance.folder / "state.json").write_text(text)
        assert instance.read() is None


def test_the_lock_has_one_owner_and_goes_over_to_a_child(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    with instance.locked() as lock:
        assert lock is not None
        with instance.locked() as second:
            assert second is None
        program = "import sys; sys.stdin.read()"
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", program], pass_fds=(lock,), stdin=subprocess.PIPE
        )
    with instance.locked() as third:
        assert third is None  # the child has it still
    child.communicate()
    with instance.locked() as fourth:
        assert fourth is not None


def test_keys_and_passwords_are_made_once_and_are_private(tmp_path: Path) -> None:
    path = tmp_path / "airflow" / "keys.json"
    keys = Keys.ensure(path)
    assert Keys.ensure(path) == keys
    passwords = ensure_passwords(tmp_path / "passwords.json")
    assert set(passwords) == {"admin", "viewer"}
    assert ensure_passwords(tmp_path / "passwords.json") == passwords
    for private in (path, tmp_path / "passwords.json"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600


def test_a_password_that_the_user_chose_stays(tmp_path: Path) -> None:
    file = tmp_path / "passwords.json"
    file.write_text(json.dumps({"admin": "mine"}))
    passwords = ensure_passwords(file)
    assert passwords["admin"] == "mine"
    assert json.loads(file.read_text()) == passwords
