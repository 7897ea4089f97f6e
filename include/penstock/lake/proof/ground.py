"""What is left of the log for an audit of a step, and what was found of what went (``keep``)."""

from dataclasses import dataclass, replace

from penstock.core.errors import TerminalError
from penstock.core.step import StepSpec
from penstock.core.window import BEGINNING
from penstock.lake.history.generation import Generation
from penstock.lake.log.freezes import NOTHING, Freezes
from penstock.lake.proof.footing import Footing, epoch_of
from penstock.lake.proof.waypoint import BEGIN, Waypoint
from penstock.lake.storage.tables import Tables


@dataclass(frozen=True, slots=True)
class Ground:
    """Where audits of a step begin.

    Attributes:
        begin: what came before it may be gone.
        footing: what was found up to there, of what is frozen; none: it was nothing to the step.
        window_from: windows that start earlier are frozen: they are not compared any more, us.
    """

    begin: Waypoint = BEGIN
    footing: Footing | None = None
    window_from: int = BEGINNING

    def under(self, footing: Footing) -> Footing | None:
        """A footing whose older ground is what is left; none: it ended in what is gone."""
        if footing.head.block < self.begin.block:
            return None
        old = footing.old
        gone = old is None or old.block < self.begin.block
        return replace(footing, old=self.begin) if gone else footing


def ground_of(tables: Tables, step: StepSpec, epoch: Generation) -> Ground:
    """The ground of a step's epoch.

    Raises:
        TerminalError: what the epoch began with has gone.
    """
    freezes = Freezes(tables)
    done, text = freezes.frozen, freezes.frozen.steps.get(step.id)
    found = None if text is None else Footing.from_text(text)
    if found is not None and found.epoch == epoch_of(epoch):
        return Ground(found.head, found, done.begin_of(step))
    if epoch.frozen < done.seq:
        raise TerminalError(
            f"{step.id}: its log was frozen up to record {done.seq + 1:,} while it began, and it"
            " was to be answered from earlier ones. Edit its definition: it then begins behind"
        )
    mine = next((f for f in freezes.all() if f.seq == epoch.frozen), NOTHING)
    several = step.streams if len(step.streams) > 1 else ()
    stood = (one.begun(live=epoch.live) for one in mine.streams if one.stream in several)
    newest = mine.newest_of(step.streams)
    begin = Waypoint(mine.block, mine.seq, newest, begins=True, streams=tuple(stood))
    return Ground(begin, None, mine.begin_of(step))
