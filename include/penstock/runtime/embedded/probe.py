"""Asks a running Airflow how it is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx

COMPONENTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_PATIENCE_SECONDS = 5.0
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the DAG processor has made of the DAG files since an instant."""

    dags: frozenset[str]
    files: frozenset[str]
    errors: tuple[tuple[str, str], ...]  # file, last line of the error


def health(url: str, since: datetime) -> dict[str, bool]:
    """Whether each component is healthy; empty while nobody answers.

    Args:
        url: The base URL.
        since: Heartbeats before this instant come from processes that are gone.
    """
    try:
        with _client(url) as client:
            answer = client.get("/api/v2/monitor/health").raise_for_status().json()
    except (httpx.HTTPError, ValueError):
        return {}
    return {name: _is_healthy(name, answer.get(name) or {}, since) for name in COMPONENTS}


def token(url: str, user: str, password: str) -> str | None:
    """A token by name and password; None when it is refused or nobody answers."""
    try:
        with _client(url) as client:
            answer = client.post("/auth/token", json={"username": user, "password": password})
            return str(answer.raise_for_status().json()["access_token"])
    except (httpx.HTTPError, ValueError, KeyError):
        return None


def parsed(url: str, bearer: str, since: datetime) -> Parsed:
    """DAGs and import errors that are not older than ``since``.

    Raises:
        httpx.HTTPError: Nobody answers, or the token is refused.
    """
    with _client(url, {"Authorization": f"Bearer {bearer}"}) as client:
        dags = [
            dag
            for dag in _pages(client, "/api/v2/dags", "dags")
            if _instant(dag.get("last_parsed_time")) >= since
        ]
        errors = [
            error
            for error in _pages(client, "/api/v2/importErrors", "import_errors")
            if _instant(error.get("timestamp")) >= since
        ]
    return Parsed(
        dags=frozenset(dag["dag_id"] for dag in dags),
        files=frozenset(str(dag.get("relative_fileloc")) for dag in dags)
        | frozenset(str(error.get("filename")) for error in errors),
        errors=tuple(
            (str(error.get("filename")), _last_line(str(error.get("stack_trace"))))
            for error in errors
        ),
    )


def _client(url: str, headers: dict[str, str] | None = None) -> httpx.Client:
    # trust_env off: a proxy of the environment must not see calls to this machine
    return httpx.Client(base_url=url, headers=headers, timeout=_PATIENCE_SECONDS, trust_env=False)


def _pages(client: httpx.Client, path: str, key: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        answer = client.get(path, params={"limit": _PAGE, "offset": len(rows)})
        page = answer.raise_for_status().json()
        rows += page[key]
        if not page[key] or len(rows) >= page["total_entries"]:
            return rows


def _is_healthy(name: str, answer: dict[str, Any], since: datetime) -> bool:
    if answer.get("status") != "healthy":
        return False
    return name == "metadatabase" or _instant(answer.get(f"latest_{name}_heartbeat")) >= since


def _instant(text: str | None) -> datetime:
    return datetime.fromisoformat(text or "1970-01-01T00:00:00+00:00")


def _last_line(trace: str) -> str:
    return trace.strip().splitlines()[-1] if trace.strip() else "unknown error"
