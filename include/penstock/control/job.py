"""Turns a command line into one call, and its outcome into an exit code."""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.config.kept import catalog_in_force, catalog_to_run
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError, TerminalError
from penstock.core.request import Job, JobRequest

DONE, BLOCKED, TERMINAL, AGAIN = 0, 10, 20, 1
OUTCOME = "penstock-outcome:"

Outcome = Mapping[str, Any]
Work = Callable[[JobRequest, Settings], Outcome]


class BlockedByQualityError(TerminalError):
    """An audit found a critical expectation broken.

    Attributes:
        outcome: what to hand to Airflow all the same.
    """

    def __init__(self, message: str, outcome: Outcome) -> None:
        self.outcome = dict(outcome)
        super().__init__(message)


def run_job(work: Work, argv: Sequence[str]) -> int:
    """Run one job.

    Returns:
        0 done, 10 blocked by quality, 20 a person has to act, 1 try again.
    """
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    for chatty in ("py4j", "great_expectations"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    log = logging.getLogger("penstock.job")
    request = JobRequest.from_argv(argv)
    os.umask(0o077)  # of Spark's files, too: the records are their owner's
    try:
        outcome = work(request, Settings())
    except BlockedByQualityError as red:
        log.error("%s", red)  # noqa: TRY400  the message says it all
        _say(red.outcome)
        return BLOCKED
    except TerminalError as wrong:
        log.error("%s", wrong)  # noqa: TRY400
        _say({"error": str(wrong)})
        return TERMINAL
    except Exception as failed:
        log.exception("job=%s failed; trying again may help", request.job.value)
        _say({"error": f"{type(failed).__name__}: {failed}"[:2000]})
        return AGAIN
    _say(outcome)
    return DONE


def pipeline_of(request: JobRequest, settings: Settings) -> Pipeline:
    """The pipeline a job is about; of a stream host one that says what its log is.

    Raises:
        ConfigError: the request names none, or one that was never valid.
    """
    if request.pipeline is None:
        raise ConfigError(f"{request.job.value} needs --pipeline")
    catalog = catalog_to_run(settings)
    found = catalog.of_log if request.job is Job.STREAM else catalog.pipeline
    return found(request.pipeline, request.digest)


def runs_on(settings: Settings, log: str) -> set[str]:
    """What is to run on a log, for whomever, by id."""
    every = catalog_in_force(settings).every
    return {step.id for pipeline in every if pipeline.log == log for step in pipeline.specs}


def _say(outcome: Outcome) -> None:
    sys.stdout.write(f"\n{OUTCOME} {json.dumps(dict(outcome), default=str)}\n")
    sys.stdout.flush()
