"""A worker's module that says what it was started with, and ends as it is told."""

import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    names = ("pandas", "penstock.kinds.windowed.reducer", "pyspark.worker")
    imported = [name for name in names if name in sys.modules]
    told = {"arguments": sys.argv[1:], "folder": str(Path.cwd()), "imported": imported}
    told |= {"only_here": os.environ.get("ONLY_HERE"), "pid": os.getpid()}
    print(json.dumps(told), flush=True)
    if sys.argv[1:] == ["called"]:
        from pyspark.serializers import write_int
        from pyspark.worker_util import get_sock_file_to_executor

        with get_sock_file_to_executor(timeout=None) as file:
            write_int(4711, file)
            file.flush()
    if line := sys.stdin.readline():
        sys.exit(json.loads(line))
