"""Who is not in force for a moment: what it has must not go with another pipeline.

A file that is right by itself may not fit what another file says now, and what it said when it last
was valid may not fit, either. Then it is none of those that run; mended, it goes on with what it
has: so until then, what is remembered of it tells where that is.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from penstock.config.answers import OverAnswers
from penstock.config.catalog import Catalog, read_file
from penstock.config.feeds import OVER
from penstock.config.kept import kept_file
from penstock.config.linked import LinkedPipeline
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.config.shares import Shares
from penstock.core.version import pipeline_of, which_of


@dataclass(frozen=True, slots=True)
class Absent:
    """One that has something, and whose file is there.

    Attributes:
        name: of a pipeline, or of a version.
        logs: on which it may stand; none: it does not come back by itself, but has runs.
        said: what its file says, and said when it last was valid; nobody has linked that.
    """

    name: str
    logs: Collection[str]
    said: Sequence[Pipeline]

    def takes_answers(self, other: str) -> bool:
        """Whether it is over another pipeline's answers."""
        return any(isinstance(each, OverAnswers) for each in self._on(other))

    def is_guest_of(self, other: str) -> bool:
        """Whether another pipeline's log is its own, too."""
        return any(not isinstance(each, OverAnswers) for each in self._on(other))

    def _on(self, other: str) -> list[LinkedPipeline]:
        some = (each for each in self.said if isinstance(each, LinkedPipeline))
        return [each for each in some if each.source.pipeline == other]


def out_of_force(settings: Settings, in_force: Catalog, known: Shares) -> list[Absent]:
    """All that are out of force, by name.

    Args:
        settings: where files are.
        in_force: all that run.
        known: what is remembered.
    """
    said = defaultdict[str, list[Pipeline]](list)
    for path in sorted({problem.path for problem in in_force.errors}):
        said[path.stem] += []  # nobody may know any more what it said
        for copy in (path, kept_file(settings, path.stem)):
            for each in read_file(path, copy)[0] if copy.is_file() else ():
                said[each.name].append(each)
    logs = defaultdict[str, set[str]](set)
    for share in known.runs:
        logs[share.pipeline] |= {share.log} if share.meaning != OVER else set()
    for lodging in known.logs:
        logs[lodging.pipeline] |= {lodging.log} if lodging.holds != OVER else set()
    for each in in_force.every:
        logs.pop(each.name, None)
    return [
        Absent(name, on if pipeline_of(name) in said else (), said.get(name, ()))
        for name, on in sorted(logs.items())
        if on and (kept_file(settings, name).is_file() if which_of(name) else name in said)
    ]
