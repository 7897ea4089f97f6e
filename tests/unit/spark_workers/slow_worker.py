"""A worker's module whose imports take as long as the test wants."""

import os
import time
from pathlib import Path

from pyspark.serializers import write_int
from pyspark.worker_util import get_sock_file_to_executor

until = time.monotonic() + 60
while not Path(os.environ["IMPORTED"]).exists() and time.monotonic() < until:
    time.sleep(0.01)  # the slow import itself

if __name__ == "__main__":
    with get_sock_file_to_executor(timeout=None) as file:
        write_int(4711, file)
        file.flush()
