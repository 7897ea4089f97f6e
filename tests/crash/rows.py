"""The list of the matrix: every point, in which job it kills, what runs again; and what passed."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEEDS = (0, 1, 2)
SIDES = ("before", "after")
DOOR = ("ingest", "stream", "preload")
COMMITS = {
    "ingest plans": DOOR, "ingest quarantine": DOOR, "ingest events": DOOR, "ingest blocks": DOOR,
    "registry registry": ("preload",), "slack decisions": ("preload",),
    "speed late": ("stream",), "speed answers": ("stream",), "speed control": ("stream",),
    "speed excluded": ("stream",),
    "register pipelines": ("stream",), "register steps": ("stream",),
    "register tasks": ("stream",), "register shares": ("stream",),
    "rescaling rescalings": ("stream",),
    "side side": ("preload", "limit"), "first decisions": ("preload",),
    "note decisions": ("limit",), "proposal decisions": ("propose", "limit"),
    "plan decisions": ("ingest", "stream"),
    "file decisions": ("decide",), "coverage coverage": ("correct",),
    "plan corrections": ("correct", "preload"), "correct answers": ("correct", "preload"),
    "done corrections": ("correct", "preload"),
    "audit audits": ("audit",), "report": ("audit",), "create": ("preload", "stream"),
    "status p.spec.json": ("launch",), "status p.supervisor.json": ("launch",),
    "status p.start.json": ("launch",), "status p.driver.json": ("launch",),
    "status p.link.p": ("launch",), "status p.stop": ("launch",),
}  # fmt: skip
POINTS: dict[str, tuple[str, ...]] = {
    f"{side} {commit}": jobs for commit, jobs in COMMITS.items() for side in SIDES
}
LOSSES = {f"within {commit}": jobs for commit, jobs in COMMITS.items()
          if not commit.startswith(("status", "report"))} | {
    "within compact": ("maintain",), "within checkpoint": ("maintain",),
}  # fmt: skip
"""Between a commit and its syncs: the power goes, and any of what was not synced is lost."""
POINTS |= LOSSES
POINTS |= dict.fromkeys(
    ["speed start", "speed begin", "speed offset", "speed cut", "speed read", "before state",
     "inside state", "after state", "before result", "after result", "speed sink"], ("stream",),
)  # fmt: skip
POINTS |= dict.fromkeys(["correct read", "correct windows"], ("correct", "preload"))
OF_TASKS = dict.fromkeys(
    ["door piece", "door drafts", "speed read", "before state", "inside state", "after state",
     "before result", "after result"], "stream",
) | dict.fromkeys(["correct read", "correct windows"], "correct")  # fmt: skip
"""What tasks reach, whatever node they run on, and in which job: rows of their own on a cluster."""
OF_AN_AUDIT = {"audit task 1": 0, "audit task 15": 14, "audit task 30": 29}
"""No points: an audit's tasks are Spark's own. So many are done before."""
NODE, BESIDE, LATER = "node", "driver, beside", "driver, later"
"""Who is lost at a point of a task: its node; its driver, and the task wakes beside the next one,
or once that is done."""
ON_NODES = [(point, lost) for point in OF_TASKS for lost in (NODE, BESIDE, LATER)] + [
    (point, NODE) for point in OF_AN_AUDIT
]
OF_A_FREEZE = [
    f"{side} {commit}"
    for commit in ("freeze freezes", "thin events", "thin blocks", "thin late", "thin control",
                   "thin answers", "note merges", "merge merged")
    for side in ("before", "within", "after")
]  # fmt: skip
"""Of maintenance that freezes, and merges what is much read: it has lives of its own."""
OF_A_FEED = [
    f"{side} {commit}"
    for commit in ("ingest plans", "ingest quarantine", "ingest events", "plan decisions",
                   "ingest blocks")
    for side in ("before", "within", "after")
]  # fmt: skip
"""Of a feed: a life of its own."""
OF_A_SCALING = [
    f"{side} {commit}"
    for commit in ("executors executors", "load load", "forget load", "scaling scalings")
    for side in ("before", "within", "after")
] + [f"{side} status {file}" for file in ("wanted.json", "state.json") for side in SIDES]
"""Of a run of ``scale__cluster`` and of the looks at the load: a life of its own."""
POINTS |= dict.fromkeys(["suite begun", "suite cleared", "suite judged"], ("audit",))
POINTS |= dict.fromkeys(
    [
        "before compact",
        "before vacuum",
        "after vacuum",
        "before checkpoint",
        "before cleanup",
        "after cleanup",
    ],
    ("maintain",),
)
POINTS |= dict.fromkeys(["before copied", "after copied"], ("backup", "restore"))
POINTS |= dict.fromkeys(
    ["before manifest", "after manifest", "before tidied", "after tidied"], ("backup",)
)
POINTS |= dict.fromkeys(
    ["before restored", "after restored", "before kept", "after kept"], ("restore",)
)
POINTS |= dict.fromkeys(
    ["supervisor launched", "supervisor detached", "supervisor driving"], ("launch",)
)
POINTS |= dict.fromkeys(
    ["before archived", "after archived", "before cleared", "within cleared", "after cleared"],
    ("ingest", "stream"),
)
POINTS |= dict.fromkeys(
    ["door piece", "door drafts", "before roster", "after roster", "before moved", "after moved"],
    ("stream",),
)
POINTS |= dict.fromkeys(("after unlink", *(f"{side} shares" for side in SIDES)), ("launch",))
POINTS |= dict.fromkeys(
    [f"{side} {what}" for side in SIDES for what in ("next", "former", "taken back")]
    + ["after switch"],
    ("launch",),
)
FAILURE = ("before failure", "after failure")
POINTS |= dict.fromkeys(FAILURE, ("stream",))

SNAPSHOTS = {"inside a snapshot": ".*.zip*.tmp", "after a snapshot": "*.zip"}
"""Not points of ours: Spark's maintenance uploads them, and the harness watches the folder."""
DAMAGES: dict[str, tuple[str, ...]] = {
    "lost commit": ("commits/*",),
    "lost commit and offset": ("commits/*", "offsets/*"),
    "emptied commit": ("commits/*",),
    "emptied offset": ("offsets/*",),
    "emptied offset and commit": ("commits/*", "offsets/*"),
    "lost state changes": ("state/*/*/*.changelog",),
    "emptied state changes": ("state/*/*/*.changelog",),
    "lost state": ("state",),
    "lost checkpoint": (".",),
}
"""What a disk may have lost after the kill: the newest of these files, or a folder."""
ROWS = (*POINTS, *SNAPSHOTS, *DAMAGES)
AFTER: dict[str, tuple[str, ...]] = {
    "preload": ("preload", "limit", "propose", "stream", "correct"),
    "limit": ("limit", "propose", "stream", "correct"),
    "propose": ("propose", "stream", "correct"), "decide": ("decide", "stream", "correct"),
    "ingest": ("stream", "correct"),
    "launch": ("launch", "stream", "correct"), "stream": ("stream", "correct"),
    "correct": ("correct",), "audit": ("audit",), "maintain": ("maintain", "correct"),
    "backup": ("backup", "restore", "stream", "correct"),
    "restore": ("restore", "stream", "correct"),
}  # fmt: skip
"""What is run again after a kill; an audit comes last always."""


def named(point: str, lost: str) -> str:
    """A row on a cluster, for people."""
    return f"{point} ({lost})"


@dataclass
class Result:
    """One row's outcome."""

    point: str
    seed: int
    job: str
    times: int
    seconds: float
    starts: int = 1
    """How often the stream had to be started until it went on."""


class Kept:
    """Results of passed rows, kept for the same code: an interrupted matrix goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[tuple[str, int], dict[str, Any]] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            row = json.loads(line)
            self.rows[row["point"], row["seed"]] = row

    def or_else(self, point: str, seed: int, live: Callable[[], Result]) -> dict[str, Any]:
        """A row's kept result, or a new one."""
        if (point, seed) not in self.rows:
            row = vars(live())
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            self.rows[point, seed] = row
        return self.rows[point, seed]

    def table(self) -> list[str]:
        """Point by seed, then who was lost on a cluster, for people."""
        out = [f"{'point':<32} {'seeds':<40} seconds, at most"]
        for point in ROWS:
            mine = [self.rows.get((point, seed)) for seed in SEEDS]
            said = [f"{r['job']}:{r['times']}" if r else "not run" for r in mine]
            most = max((r["seconds"] for r in mine if r), default=0)
            out.append(f"{point:<32} {'  '.join(f'{x:<12}' for x in said):<40} {most:7.1f}")
        done = sum((p, s) in self.rows for p in ROWS for s in SEEDS)
        out.append(f"{done} of {len(ROWS)} x {len(SEEDS)} = {len(ROWS) * len(SEEDS)} rows passed")
        return [*out, *self._on_nodes()]

    def _on_nodes(self) -> Iterator[str]:
        rows = {name: self.rows.get((name, 0)) for name in (named(*each) for each in ON_NODES)}
        yield f"{'point (who was lost)':<32} {'job':<20} seconds"
        for name, row in rows.items():
            said = f"{row['job']}:{row['times']:<12} {row['seconds']:7.1f}" if row else "not run"
            yield f"{name:<32} {said}"
        yield f"{sum(map(bool, rows.values()))} of {len(rows)} rows on a cluster passed"
