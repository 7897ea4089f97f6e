"""What a killed supervisor left running, and how to end it."""

import signal
import time
from datetime import timedelta

from penstock.config.settings import Settings
from penstock.runtime.embedded.instance import Instance
from penstock.runtime.embedded.postgres import Postgres
from penstock.runtime.embedded.processes import (
    ProcessIdentity,
    kill_session,
    send,
    session_members,
    wait_until_gone,
)

_GRACE = timedelta(seconds=15)  # a triggerer that ends by itself gives its triggers back


def left_over(instance: Instance) -> dict[str, ProcessIdentity]:
    """Children of a supervisor that is gone, by name; whatever still runs of their sessions."""
    state = instance.read()
    if state is None or state.lives:
        return {}
    return {
        process.name: process.identity
        for process in state.processes
        if process.identity is not None and session_members(process.identity)
    }


def end_left_overs(settings: Settings, instance: Instance) -> list[str]:
    """End them, PostgreSQL last; call it with the instance's lock held.

    Returns:
        Names of what was running.
    """
    found = left_over(instance)
    database = found.pop("postgres", None)
    _end(list(found.values()))
    ended = sorted(found)
    # By its pid file too: the state may be older than the server.
    if Postgres(settings.postgres).end_left_over_server() or database is not None:
        ended.append("postgres")
    return ended


def _end(leaders: list[ProcessIdentity]) -> None:
    until = time.monotonic() + _GRACE.total_seconds()
    for leader in leaders:
        if leader.pid in session_members(leader):
            send(leader.pid, signal.SIGTERM)
    for leader in leaders:
        wait_until_gone(leader, timedelta(seconds=max(0.0, until - time.monotonic())))
        kill_session(leader)
