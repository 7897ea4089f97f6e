"""Runs a DAG through Airflow's REST API, as a person would do it in the user interface."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from penstock.core.errors import ConfigError, TerminalError, TransientError

CALL_SECONDS = 20.0
PATIENCE_SECONDS = 90.0
"""How long nobody may answer: a component that died is started again within this time."""
PAUSE_SECONDS = 1.0
BY_ITSELF_SECONDS = 5.0
RECENT = 20
"""Runs of a DAG that are looked at."""
LAST_LINES = 15
UNFINISHED = ("queued", "running")


class RunFailedError(TerminalError):
    """A run ended with a failed task."""

    def __init__(self, dag: str, run: str, said: str) -> None:
        self.dag, self.run, self.said = dag, run, said
        super().__init__(f"{dag}: the run {run} failed.\n{said}")


@dataclass(frozen=True, slots=True)
class DagRun:
    """One run of a DAG.

    Attributes:
        dag: its DAG.
        name: Airflow's run id.
        state: queued, running, success or failed.
        tasks: state of each task; None while it has none.
        ended: when the last task ended, as Airflow says it; empty: none did.
    """

    dag: str
    name: str
    state: str
    tasks: dict[str, str | None]
    ended: str

    @property
    def said(self) -> str:
        """What to show while it goes on."""
        if self.state == "queued" or not any(self.tasks.values()):
            return "queued"
        return ", ".join(f"{task} {state}" for task, state in self.tasks.items() if state)


class Airflow:
    """A running Airflow, called with the rights of one user.

    Args:
        url: of the user interface.
        user: name and password, as in the login form.
        logs: folder of the task logs.
    """

    def __init__(self, url: str, user: tuple[str, str], logs: Path) -> None:
        self._user, self._logs = user, logs
        # trust_env off: a proxy of the environment must not see calls to this machine
        self._client = httpx.Client(base_url=url, timeout=CALL_SECONDS, trust_env=False)

    @contextmanager
    def resting(self, dags: Sequence[str]) -> Iterator[None]:
        """Keep DAGs from running by themselves inside the block, unless ``start`` lets them.

        Those that were active before are active again after it.

        Raises:
            ConfigError: Airflow does not know a DAG.
        """
        active = [dag for dag in dags if not self._known(dag)["is_paused"]]
        for dag in active:
            self._pause(dag, paused=True)
        try:
            yield
        finally:
            for dag in active:
                self._pause(dag, paused=False)

    def start(self, dag: str, since: str = "", *, by_itself: bool = False) -> DagRun:
        """Let a DAG run, and see that it does so once.

        A run that is there already will do as well as a new one if it began late enough; asking
        for another would only have it wait for the first.

        Args:
            dag: the DAG; it must not run twice at once.
            since: instant of Airflow; earlier runs will not do. Empty: any that goes on will.
            by_itself: a schedule or an asset may start it as soon as it is not paused.
        """
        path = f"/api/v2/dags/{dag}"
        self._pause(dag, paused=False)
        found = self._began(path, since)
        until = time.monotonic() + (BY_ITSELF_SECONDS if by_itself else 0)
        while found is None and time.monotonic() < until:
            time.sleep(PAUSE_SECONDS)
            found = self._began(path, since)
        found = found or self._call("POST", f"{path}/dagRuns", {"logical_date": None})
        return self.look(DagRun(dag, str(found["dag_run_id"]), "queued", {}, ""))

    def _known(self, dag: str) -> dict[str, Any]:
        try:
            return self._get(f"/api/v2/dags/{dag}")
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise
            raise ConfigError(
                f"Airflow does not know the DAG {dag}. Is its pipeline file valid?"
                " See: penstock validate"
            ) from error

    def _pause(self, dag: str, *, paused: bool) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": paused})

    def _began(self, path: str, since: str) -> dict[str, Any] | None:
        return latest(
            self._get(f"{path}/dagRuns", order_by="-run_after", limit=RECENT)["dag_runs"], since
        )

    def look(self, run: DagRun) -> DagRun:
        """How the run is by now."""
        path = f"/api/v2/dags/{run.dag}/dagRuns/{run.name}"
        state = str(self._get(path)["state"])
        tasks = self._get(f"{path}/taskInstances")["task_instances"]
        ended = max((task["end_date"] or "" for task in tasks), default="")
        states = {task["task_id"]: task["state"] for task in tasks}
        return DagRun(run.dag, run.name, state, states, ended)

    def outcome(self, run: DagRun) -> dict[str, Any]:
        """What the run's Spark job said of its outcome; empty: nothing."""
        for task in run.tasks:
            path = f"/api/v2/dags/{run.dag}/dagRuns/{run.name}/taskInstances/{task}"
            try:
                value = self._get(f"{path}/xcomEntries/outcome", deserialize=True)["value"]
            except httpx.HTTPStatusError:
                continue
            if isinstance(value, dict):
                return value
        return {}

    def failure(self, run: DagRun, other_log: Path | None) -> RunFailedError:
        """Which task failed, the end of its log, and where that log is.

        Args:
            run: the failed one.
            other_log: where more is said, by a process that Airflow only watches.
        """
        path = f"/api/v2/dags/{run.dag}/dagRuns/{run.name}/taskInstances"
        parts: list[str] = []
        for task in self._get(path)["task_instances"]:
            if task["state"] not in {"failed", "upstream_failed"}:
                continue
            name, attempt = task["task_id"], task["try_number"]
            folder = self._logs / f"dag_id={run.dag}/run_id={run.name}/task_id={name}"
            file = folder / f"attempt={attempt}.log"
            lines = self._log(f"{path}/{name}/logs/{attempt}")
            parts += [f"task {name}, the end of its log:", *lines]
            parts.append(f"all of it: {file if file.exists() else folder}")
        if other_log is not None:
            parts.append(f"see also: {other_log}")
        return RunFailedError(run.dag, run.name, "\n".join(parts) or "No task of it failed.")

    def _log(self, path: str) -> list[str]:
        try:
            content = self._get(path, full_content=True)["content"]
        except httpx.HTTPStatusError:
            return ["  (Airflow has no log of it)"]
        lines = [line for message in content for line in _lines(message)]
        return [f"  {line}" for line in lines[-LAST_LINES:]]

    def _get(self, path: str, **params: Any) -> dict[str, Any]:
        return self._call("GET", path, None, params)

    def _call(
        self, method: str, path: str, body: Any = None, params: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                answer = self._client.request(method, path, json=body, params=params)
                if answer.status_code == httpx.codes.UNAUTHORIZED:
                    self._log_in()
                    answer = self._client.request(method, path, json=body, params=params)
                answer.raise_for_status()
            except (httpx.TransportError, httpx.HTTPStatusError) as error:
                if not _may_pass(error):
                    raise
                if time.monotonic() > until:
                    raise TransientError(
                        f"Airflow at {self._client.base_url} does not answer: {error}."
                        " See: penstock status"
                    ) from error
                time.sleep(PAUSE_SECONDS)
            else:
                content: dict[str, Any] = answer.json()
                return content

    def _log_in(self) -> None:
        name, password = self._user
        answer = self._client.post("/auth/token", json={"username": name, "password": password})
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            raise ConfigError(
                f"Airflow refuses the password of {name} that stands in passwords.json."
                " Was the file edited? Then: make down, make up"
            )
        bearer = answer.raise_for_status().json()["access_token"]
        self._client.headers["Authorization"] = f"Bearer {bearer}"


def latest(runs: list[dict[str, Any]], since: str) -> dict[str, Any] | None:
    """Of runs as Airflow describes them, the last one that will do; backfills never do.

    Args:
        runs: in any order.
        since: only those that were asked for at this instant or later; empty: only those that
            still go on.
    """
    able = [
        run
        for run in runs
        if run["run_type"] != "backfill"
        and ((run["queued_at"] or "") >= since if since else run["state"] in UNFINISHED)
    ]
    return max(able, key=lambda run: str(run["queued_at"]), default=None)


def _may_pass(error: httpx.HTTPError) -> bool:
    """Whether the same call may succeed later: nobody answers yet, or the server stumbled."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
    return True


def _lines(message: Any) -> list[str]:
    """One entry of a log as lines of text; Airflow keeps an exception beside the text."""
    if isinstance(message, str):
        return message.splitlines()
    event = str(message.get("event", ""))
    if event.startswith("::"):  # folds of the log viewer
        return []
    errors = message.get("error_detail") or []
    values = [f"{e.get('exc_type', '')}: {e.get('exc_value', '')}" for e in errors]
    return [line for text in [event, *values] for line in text.splitlines()]
