"""The Spark provider's hook, made fit for jobs whose exit code and last words mean something."""

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from penstock.config.settings import child_environment
from penstock.runtime.streams.processes import MARK, kill_marked

OUTCOME = "penstock-outcome:"
PR_SET_PDEATHSIG = 1


class JobSubmitHook(SparkSubmitHook):
    """Runs spark-submit so that nothing of it outlives the task.

    Attributes:
        mark: names everything started for this run of this job, over all tries.
        environment: variables on top of the inherited ones (without Airflow's: a Spark job never
            talks to Airflow, and its secrets would end in logs).
        outcome: what the job said in its last ``penstock-outcome:`` line.
    """

    mark: str = ""
    environment: dict[str, str]
    outcome: dict[str, Any] | None = None

    @property
    def exit_code(self) -> int | None:
        """Of spark-submit, which in client mode is the job's own."""
        return self._submit_sp.returncode if self._submit_sp is not None else None

    @property
    def last_words(self) -> str:
        """The end of the job's output."""
        return "\n".join(list(self._last_submit_log_lines)[-20:])

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        """Run the job to its end; first ends what a killed former try left running."""
        kill_marked(self.mark, set())
        libc = ctypes.CDLL(None)
        tools = str(Path(sys.executable).parent)
        environment = child_environment(**self.environment, **{MARK: self.mark})
        environment["PATH"] = f"{tools}:{environment.get('PATH', '')}"
        return super().submit(
            application,
            env=environment,
            # A task process that is killed cannot clean up: the kernel then ends the JVM.
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            **kwargs,
        )

    def on_kill(self) -> None:
        """End JVM, Python and Spark's Python workers; the jobs may be killed at any point."""
        kill_marked(self.mark, set())
        if self._submit_sp is not None:
            try:
                self._submit_sp.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.log.warning("spark-submit is still there pid=%s", self._submit_sp.pid)

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        super()._process_spark_submit_log(self._listen(itr))

    def _listen(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            if line.startswith(OUTCOME):
                try:
                    self.outcome = json.loads(line.removeprefix(OUTCOME))
                except ValueError:
                    self.log.warning("unreadable outcome line=%s", line.strip())
            yield line
