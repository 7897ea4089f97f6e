"""What a container of docker-compose.yaml does: ``python -m penstock.runtime.containers ROLE``.

Most roles become another program. Airflow's secrets get into its environment only here, from the
files of the first start: a container's description holds none.
"""

import os
import sys
from collections.abc import Callable

from penstock.config.settings import Settings
from penstock.core.errors import PenstockError
from penstock.runtime.containers import programs
from penstock.runtime.containers.first_start import prepare
from penstock.runtime.embedded import privacy
from penstock.runtime.embedded.lifecycle import anchored
from penstock.runtime.streams import runner

AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer")


def main(argv: list[str]) -> int:
    """Play one role.

    Returns:
        Exit status; roles that become another program do not return.
    """
    role, *arguments = argv or ["help"]
    os.umask(privacy.OWNER_ONLY)
    settings = anchored(Settings())
    become: dict[str, Callable[[], programs.Program]] = {
        "postgres": lambda: programs.postgres(settings),
        "airflow": lambda: programs.airflow(settings, *arguments),
        "spark-master": lambda: programs.spark("master.Master", *arguments),
        "spark-worker": lambda: programs.spark("worker.Worker", *arguments),
        **{name: lambda: programs.airflow(settings, role, *arguments) for name in AIRFLOW},
    }
    do: dict[str, Callable[[], int]] = {
        "init": lambda: prepare(settings),
        "stream-runner": runner.main,
    }
    try:
        if role in do:
            return do[role]()
        if role in become:
            become[role]().run()
    except PenstockError as error:
        sys.stderr.write(f"{role}: {error}\n")
        return 1
    sys.stderr.write(f"no role {role}; there are {', '.join(sorted({*do, *become}))}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
