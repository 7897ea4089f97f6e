"""Which steps a query runs, as its source is told: they come and go while it runs.

The source lives in a process of its own, and is told by files beside the query's checkpoint. They
say nothing that is to last: whoever starts the query writes them anew. An option would do for what
does not change, but it stands in the text of every plan.
"""

import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.crash import reached
from penstock.spark.follow import StepStart


def tell(path: Path, content: object) -> None:
    """Replace a file as a whole."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    reached("before roster")
    fresh.write_bytes(pickle.dumps(content, 5))
    fresh.replace(path)
    reached("after roster")


@dataclass
class Roster:
    """The steps of a query.

    Attributes:
        path: of the file.
    """

    path: Path
    _seen: bytes = field(default=b"", repr=False)

    def write(self, starts: Sequence[StepStart]) -> None:
        """Let these be the steps, from the next micro-batch on."""
        tell(self.path, tuple(starts))

    def news(self) -> tuple[StepStart, ...] | None:
        """The steps, if they are others than when this was last asked; none: they are not."""
        content = self.path.read_bytes()  # small; a file may look like the one that it replaced
        if content == self._seen:
            return None
        self._seen = content
        return tuple(pickle.loads(content))  # noqa: S301  written by this application
