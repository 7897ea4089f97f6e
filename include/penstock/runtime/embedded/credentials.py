"""Passwords and keys of embedded mode: made once, readable by their owner only."""

import base64
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

USERS = {"admin": "admin", "viewer": "viewer"}  # name -> role
_LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # none looks like another
_PASSWORD_LENGTH = 14
_ROLLING = "spark.executor.logs.rolling"
EXECUTOR_LOGS = {
    f"{_ROLLING}.strategy": "size",
    f"{_ROLLING}.maxSize": "10485760",
    f"{_ROLLING}.maxRetainedFiles": "3",
}
"""A stream's executors live for months: so what they say has an end. Read by workers."""


@dataclass(frozen=True, slots=True)
class Keys:
    """What every Airflow process must share."""

    jwt: str
    fernet: str
    session: str

    @classmethod
    def ensure(cls, path: Path) -> Self:
        """Read the keys, or make them on the first start."""
        if not path.exists():
            fresh = cls(
                jwt=secrets.token_urlsafe(48),
                fernet=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
                session=secrets.token_urlsafe(32),
            )
            write_private(path, json.dumps(asdict(fresh)))
        return cls(**json.loads(path.read_text()))


def ensure_passwords(path: Path) -> dict[str, str]:
    """The password of each user, in the form that Airflow's simple auth manager reads.

    A user may edit the file: only missing users are added.
    """
    known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    missing = {name: _password() for name in USERS if name not in known}
    if missing:
        write_private(path, json.dumps(known | missing))
    return known | missing


def write_private(path: Path, text: str) -> None:
    """Write a file with mode 0600 in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)


def spark_secret() -> str:
    """What Spark's daemons, drivers and executors ask each other for: a new one."""
    return secrets.token_hex(32)


def write_spark_defaults(path: Path, secret: str, more: Mapping[str, str] | None = None) -> None:
    """Write ``spark-defaults.conf`` of processes that share a secret.

    Spark reads the secret from this file of its own: neither an environment nor a command line,
    which others may see, holds it.
    """
    own = {"spark.authenticate": "true", "spark.authenticate.secret": secret}
    lines = own | EXECUTOR_LOGS | dict(more or {})
    write_private(path, "".join(f"{key} {value}\n" for key, value in lines.items()))


def _password() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_PASSWORD_LENGTH))
