"""What a Spark job is asked to do, as a value that survives a command line (law 8)."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self


class Job(StrEnum):
    """The jobs under ``spark_jobs/``."""

    STREAM = "stream"
    PRELOAD = "preload"
    CORRECT = "correct"
    AUDIT = "audit"
    MAINTAIN = "maintain"


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One run of one job.

    Attributes:
        job: which file of ``spark_jobs/``.
        run_id: name of this run in logs and tables; the same for every try of the run.
        pipeline: the pipeline, or none for a job over the whole lake.
        digest: digest of the pipeline file when the run was scheduled; none: whatever is there.
        start: first instant of the data interval [start, end), aware; none: unbounded.
        end: first instant after the data interval, aware; none: unbounded.
        recheck: also compare answers that no late record touched, and append what differs.
        everything: audit all that was ever received, and not only what came since the last time.
    """

    job: Job
    run_id: str
    pipeline: str | None = None
    digest: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    recheck: bool = False
    everything: bool = False

    def to_argv(self) -> list[str]:
        """The command line that ``from_argv`` turns back into an equal request."""
        argv = [f"--job={self.job.value}", f"--run-id={self.run_id}"]
        if self.pipeline is not None:
            argv.append(f"--pipeline={self.pipeline}")
        if self.digest is not None:
            argv.append(f"--digest={self.digest}")
        if self.start is not None:
            argv.append(f"--start={self.start.isoformat()}")
        if self.end is not None:
            argv.append(f"--end={self.end.isoformat()}")
        flags = {"--recheck": self.recheck, "--everything": self.everything}
        return [*argv, *(flag for flag, said in flags.items() if said)]

    @classmethod
    def from_argv(cls, argv: Sequence[str]) -> Self:
        """Parse a command line; argparse prints usage and exits with 2 when it is malformed."""
        parser = argparse.ArgumentParser(allow_abbrev=False)
        parser.add_argument("--job", type=Job, required=True)
        parser.add_argument("--run-id", required=True)
        parser.add_argument("--pipeline")
        parser.add_argument("--digest")
        parser.add_argument("--start", type=_instant)
        parser.add_argument("--end", type=_instant)
        parser.add_argument("--recheck", action="store_true")
        parser.add_argument("--everything", action="store_true")
        return cls(**vars(parser.parse_args(argv)))


def _instant(text: str) -> datetime:
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text} has no zone: write it as {text}+00:00")
    return instant
