"""Questions by form: an operator that asks the answers, or the log, and keeps the result."""

from datetime import timedelta
from typing import Any

from airflow.exceptions import AirflowException
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from penstock.core.clock import SystemClock
from penstock.core.errors import PenstockError, TransientError
from penstock_airflow import forms, wiring


class QueryOperator(BaseOperator):
    """Answer the question of a form; the rows are a Parquet file, shown on the page *Queries*.

    Args:
        pipeline: which.
        kwargs: of BaseOperator.
    """

    ui_color = "#e3dcf1"

    def __init__(self, *, pipeline: str, **kwargs: Any) -> None:
        retry = {"retries": 2, "retry_delay": timedelta(seconds=10)}
        super().__init__(**retry | kwargs)
        self.pipeline = pipeline

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask.

        Raises:
            AirflowFailException: the question is wrong; says how.
            AirflowException: a retry may help.
        """
        from penstock.lake.serve.question import Question, known
        from penstock.lake.serve.results import keep
        from penstock.lake.storage.tables import Tables

        settings, params = wiring.settings(), context.get("params") or {}
        pipeline = wiring.catalog().pipeline(self.pipeline)
        try:
            question = Question(
                _text(params, "sql"), _text(params, "pairs"), _text(params, "where"),
                forms.told_range(params), _text(params, "as_of"),
            )  # fmt: skip
            if question.statement is None:
                raise AirflowFailException(
                    "Nothing is asked. Trigger again with SQL, or with Pairs"
                )
            views = known(Tables(settings.lake_uri, pipeline.log), pipeline, question)
            folder, run = settings.results / pipeline.name, context["dag_run"].run_id
            result = keep(folder, views, question, run, SystemClock().now())
        except TransientError as failed:
            raise AirflowException(str(failed)) from failed
        except (PenstockError, ValueError) as wrong:
            raise AirflowFailException(str(wrong)) from wrong
        self.log.info(
            "%d rows as of record %s: %s", result.rows, result.record, folder / result.file
        )
        return {
            "rows": result.rows,
            "as_of_record": result.record,
            "file": str(folder / result.file),
        }


def _text(params: Any, name: str) -> str | None:
    """A field of the form; an empty one says nothing."""
    found = str(params.get(name) or "").strip()
    return found or None
