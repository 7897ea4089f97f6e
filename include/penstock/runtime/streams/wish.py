"""That a stream is wanted, for a stream runner: a process on another host keeps its supervisor.

A wish is a file beside the stream's others. It stays until a stop is asked for, so a runner that
was killed finds it again. What a supervisor says carries the number of the wish it was started
for: nobody takes the end of what was wished for before as the end of this.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from penstock.core.clock import Clock
from penstock.runtime.streams.paths import StreamPaths, is_held, read_json, write_json
from penstock.runtime.streams.spec import StreamSpec

SPENT = ("finished", "gave_up")
RUNNER_LOCK = "runner.lock"
"""In the folder of streams: held by the stream runner that keeps their supervisors."""
RUNNER_WORD = "runner.json"
"""What that one last said."""
FRESH_SECONDS = 60.0
"""A runner that has not looked for so long hangs; it looks once a second."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One wish.

    Attributes:
        number: tells it from others of the same stream.
        spec: what is to run.
    """

    number: str
    spec: StreamSpec

    @classmethod
    def of(cls, spec: StreamSpec) -> Self:
        """A new wish."""
        return cls(secrets.token_hex(8), spec)

    def is_spent(self, said: dict[str, Any]) -> bool:
        """Whether its stream has ended by itself.

        Args:
            said: by the stream's last supervisor.
        """
        return said.get("wish") == self.number and said.get("state") in SPENT


def read_wish(paths: StreamPaths) -> Wish | None:
    """The wish in force; None: there is none, or one of a version that said it otherwise."""
    content = read_json(paths.wish)
    try:
        return Wish(str(content["number"]), StreamSpec.from_json(content["spec"]))
    except (KeyError, TypeError):
        return None


def write_wish(paths: StreamPaths, wish: Wish) -> None:
    """Put a wish in force."""
    write_json(paths.wish, {"number": wish.number, "spec": wish.spec.to_json()})


def runner_is_well(folder: Path, clock: Clock) -> bool:
    """Whether a runner keeps the streams below a folder, and has looked lately."""
    at = read_json(folder / RUNNER_WORD).get("at")
    if at is None or not is_held(folder / RUNNER_LOCK):
        return False
    return (clock.now() - datetime.fromisoformat(at)).total_seconds() < FRESH_SECONDS
