"""Stops a stream whose task a user marked, also while no triggerer is there to notice it.

Loaded into every process of Airflow, each task's included: imports wait until they are needed.
"""

from typing import Any

from airflow.listeners import hookimpl

PREFIX = "stream__"


def _stop(previous_state: object, task_instance: Any) -> None:
    """The api-server reports a user's act without a former state; all others know one."""
    if previous_state is None and task_instance.dag_id.startswith(PREFIX):
        from penstock.runtime.streams.links import unlink
        from penstock_airflow import wiring

        unlink(wiring.settings().streams, task_instance.dag_id.removeprefix(PREFIX), "marked")


@hookimpl
def on_task_instance_failed(previous_state: object, task_instance: Any) -> None:
    """Mark failed, of the task or of its run."""
    _stop(previous_state, task_instance)


@hookimpl
def on_task_instance_success(previous_state: object, task_instance: Any) -> None:
    """Mark success, of the task or of its run."""
    _stop(previous_state, task_instance)


@hookimpl
def on_task_instance_skipped(previous_state: object, task_instance: Any) -> None:
    """Mark skipped."""
    _stop(previous_state, task_instance)
