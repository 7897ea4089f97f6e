"""What the page *Topology* shows: logs, the runs on them, and the pipelines that share these."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from penstock.config.answers import OverAnswers
from penstock.config.feeds import floor
from penstock.config.kept import catalog_in_force
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.control.spoken import spoken
from penstock.core.version import NEXT, pipeline_of, version_of
from penstock.lake.log.rescalings import Rescaling, rescalings
from penstock.lake.storage.tables import Tables
from penstock.lake.topology.plan import Change, What
from penstock.runtime.streams import control
from penstock.runtime.streams.control import StreamStatus
from penstock.runtime.streams.links import linked
from penstock.runtime.streams.outlook import outlook_of, owed_by
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.terminal.words import count

COLUMNS, WIDE = (0, 330, 660), 270
"""Where logs, runs and pipelines are in the picture, and how wide, in its own units."""
LINE, EDGE, GAP = 16, 8, 14
SHOWN = 10
"""Rescalings."""
LONGEST = 42
"""Letters that fit into a box."""
RUNS, STILL, RESTS = "runs", "still", "rests"
"""How a box looks."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box of the picture.

    Attributes:
        x, y, height: where it is.
        look: runs, still or rests.
        lines: what it says, the name first, each as far as it fits, and whole.
    """

    x: int
    y: int
    height: int
    look: str
    lines: list[tuple[str, str]]

    def left(self, line: int) -> tuple[int, int]:
        """Where an edge comes in beside a line."""
        return self.x, self.y + EDGE + LINE * line + LINE // 2

    def right(self, line: int) -> tuple[int, int]:
        """Where one goes out."""
        return self.x + WIDE, self.left(line)[1]


@dataclass(frozen=True, slots=True)
class Edge:
    """What goes from box to box.

    Attributes:
        path: of the curve.
        look: as of a box.
        ends: in an arrow: answers of a run become records of a log.
    """

    path: str
    look: str
    ends: bool


@dataclass(frozen=True, slots=True)
class View:
    """All of the page.

    Attributes:
        boxes, edges: of the picture.
        width, height: of it.
        changes: what files ask for that is not so yet.
        held: pipelines whose edit waits for approval, and is not built.
        owed: versions that are built, and what each still owes before readers can switch.
        rescalings: the newest ones, with the log of each.
    """

    boxes: list[Box]
    edges: list[Edge]
    width: int
    height: int
    changes: list[Change]
    held: list[str]
    owed: dict[str, str]
    rescalings: list[tuple[str, Rescaling]]


def view(settings: Settings) -> View:
    """Everything as of now."""
    in_force = catalog_in_force(settings)
    pipelines, outlook = in_force.every, outlook_of(settings, in_force)
    picture = _Picture(settings)
    depths = {each.log: floor(each) for each in pipelines}
    for log in sorted(depths, key=lambda name: (depths[name], name)):
        picture.add(log, [each for each in pipelines if each.log == log])
    changes = [change for change in outlook.changes if change.what is not What.STAYS]
    owed = {name: "; ".join(why) for name, why in owed_by(settings, in_force).items()}
    waits = [name for name in outlook.held if version_of(name, NEXT) not in owed]
    made = [(log, each) for log in depths for each in rescalings(Tables(settings.lake_uri, log))]
    return View(
        picture.boxes, picture.edges, COLUMNS[-1] + WIDE, picture.bottom, changes, waits, owed,
        sorted(made, key=lambda each: each[1].at, reverse=True)[:SHOWN],
    )  # fmt: skip


class _Picture:
    """Boxes and edges, log by log."""

    def __init__(self, settings: Settings) -> None:
        self.streams = settings.streams
        self.boxes, self.edges, self.bottom = list[Box](), list[Edge](), GAP
        self._runs: dict[tuple[str, str], Box] = {}

    def add(self, log: str, pipelines: Sequence[Pipeline]) -> None:
        """A log below the others, with all that stands on it."""
        paths = StreamPaths(self.streams, log)
        known, top = control.status(paths), self.bottom
        runs = {step.id: step.kind for pipeline in pipelines for step in pipeline.specs}
        first = next((each for each in pipelines if each.name == log), pipelines[0])
        whose = self._box(0, top, RUNS if known.alive else RESTS, _log(log, first, known))
        ends, y = [whose.y + whose.height], top
        for run, kind in runs.items():
            look, lines = _run(run, kind, known)
            box = self._runs[log, run] = self._box(1, y, look, lines)
            self._edge(whose.right(0), box.left(0), look)
            y = box.y + box.height + GAP
            ends.append(box.y + box.height)
        y, links = top, linked(paths) if known.alive else []
        for pipeline in pipelines:
            look = RUNS if pipeline_of(pipeline.name) in links else RESTS
            lines = [pipeline.name, *(step.name for step in pipeline.specs)]
            box = self._box(2, y, look, lines)
            for at, step in enumerate(pipeline.specs):
                run = self._runs[log, step.id]
                self._edge(run.right(0), box.left(at + 1), look)
            y = box.y + box.height + GAP
            ends.append(box.y + box.height)
        if isinstance(first, OverAnswers):
            above = self._runs[first.other.log, first.over.id]
            self._edge(above.left(1), whose.right(1), whose.look, ends=True)
        self.bottom = max(ends) + 3 * GAP

    def _box(self, column: int, y: int, look: str, lines: Sequence[str]) -> Box:
        shown = [(_short(line), line) for line in lines]
        box = Box(COLUMNS[column], y, 2 * EDGE + LINE * len(shown), look, shown)
        self.boxes.append(box)
        return box

    def _edge(
        self, begin: tuple[int, int], end: tuple[int, int], look: str, *, ends: bool = False
    ) -> None:
        (x, y), (u, v) = begin, end
        middle = (x + u) // 2
        self.edges.append(Edge(f"M{x},{y} C{middle},{y} {middle},{v} {u},{v}", look, ends))


def _log(log: str, pipeline: Pipeline, known: StreamStatus) -> Iterator[str]:
    yield log
    if isinstance(pipeline, OverAnswers):
        yield f"answers of {pipeline.source.pipeline}.{pipeline.source.step}"
    else:
        sources = (each.source.delta or each.source.files for each in pipeline.intakes.values())
        yield f"records of {', '.join(filter(None, sources))}"
    yield f"stream {known.state.replace('_', ' ')}"
    if known.alive and "records_per_second" in known.driver:
        yield f"{known.driver['records_per_second']:,} records/s"


def _run(run: str, kind: str, known: StreamStatus) -> tuple[str, list[str]]:
    """How a run looks, and what is said of it."""
    figures = known.driver.get("steps", {}).get(run) if known.alive else None
    if figures is None:
        return RESTS, [run, f"{kind}: does not run"]
    if figures.get("error"):
        return STILL, [run, f"{kind}: stands still", str(figures["error"])]
    tasks = figures.get("tasks")
    said = [run, f"{kind}: runs" + (f" in {count(tasks, 'task')}" if tasks else "")]
    if "through_seq" in figures:
        said.append(
            f"up to record {figures['through_seq'] + 1:,},"
            f" K {spoken(timedelta(seconds=figures['slack_seconds']))}"
        )
    return RUNS, said


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
