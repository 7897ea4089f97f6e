"""One line out of what Spark says when a query fails."""

import pytest

from penstock.spark.cause import MOST, cause_of


class Captured(Exception):  # noqa: N818  one of Spark's
    """As PySpark hands over an exception of the JVM."""

    def __init__(self, said: str, cause: "Captured | None" = None) -> None:
        super().__init__(f"{said}\n\nJVM stacktrace:\nat org.apache.spark.Anything")
        self._desc, self._cause = said, cause


QUERY = "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted"
WORKER = """Job aborted due to stage failure: Lost task 0.0 in stage 3.0 (TID 4) (127.0.0.1):
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
ValueError: bad block 7

\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
"""

CALL = """Traceback (most recent call last):
  File "py4j/protocol.py", line 1, in get_return_value
py4j.protocol.Py4JJavaError: An error occurred while calling o466.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:1)
Caused by: org.apache.spark.SparkException: Job aborted: all executors are lost
\tat org.apache.spark.security.SocketAuthServer.run(SocketAuthServer.scala:91)
"""


@pytest.mark.parametrize(
    ("failed", "line"),
    [
        (
            Captured(QUERY, Captured("Python worker failed to connect back.",
                                     Captured("Timed out while waiting for the Python worker"))),
            "Timed out while waiting for the Python worker",
        ),
        (Captured(QUERY, Captured(WORKER)), "ValueError: bad block 7"),
        (Captured(QUERY, Captured(CALL)),
         "org.apache.spark.SparkException: Job aborted: all executors are lost"),
        (Captured(CALL.splitlines()[0] + "\n" + CALL.splitlines()[2]), CALL.splitlines()[2]),
        (Captured(QUERY, Captured("Python worker exited unexpectedly (crashed)",
                                  Captured("java.io.EOFException"))),
         "Python worker exited unexpectedly (crashed)"),
        (ValueError("state is lost"), "state is lost"),
        (TimeoutError(), "TimeoutError"),
        (Captured("x" * 5_000), "x" * MOST),
    ],
)  # fmt: skip
def test_the_innermost_cause_that_says_something_is_told(failed: Exception, line: str) -> None:
    assert cause_of(failed) == line
