"""Refuses runs that are told what they do not understand, before they exist.

Airflow accepts unknown keys in a run's conf, and has no hook for a run that is about to be created.
Form, REST and command line all make a row of the same class, so the row is refused: they answer
with the reason (400), and there is no run that would wait for a slot to say so.
"""

import sys
from typing import Any

from penstock_airflow import forms

RUN, BACKFILL = "airflow.models.dagrun", "airflow.models.backfill"


def install() -> None:
    """Watch the classes, those that are not loaded yet once they are.

    A task's process has no tables, and shall not load what costs it a second.
    """
    if "sqlalchemy.orm" not in sys.modules:
        return
    from sqlalchemy import event
    from sqlalchemy.orm import Mapper

    for name, kind in ((RUN, "DagRun"), (BACKFILL, "Backfill")):
        if name in sys.modules and hasattr(sys.modules[name], kind):
            _watch(None, getattr(sys.modules[name], kind))
    if not event.contains(Mapper, "instrument_class", _watch):
        event.listen(Mapper, "instrument_class", _watch)


def _watch(_mapper: Any, row: type) -> None:
    from sqlalchemy import event

    check = {(RUN, "DagRun"): _run, (BACKFILL, "Backfill"): _backfill}.get(
        (row.__module__, row.__name__)
    )
    if check is not None and not event.contains(row, "init", check):
        event.listen(row, "init", check)


def _run(_row: Any, _positional: Any, said: dict[str, Any]) -> None:
    if said.get("dag_id") and isinstance(said.get("conf"), dict):
        forms.require_conf(said["dag_id"], said["conf"])


def _backfill(_row: Any, _positional: Any, said: dict[str, Any]) -> None:
    from airflow.models.backfill import InvalidBackfillConf

    try:
        forms.require_conf(said.get("dag_id") or "", said.get("dag_run_conf") or {})
    except ValueError as wrong:
        raise InvalidBackfillConf(str(wrong)) from wrong
