"""The pipeline under fire: two steps over JSON lines, with an id and a history; and its home."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from penstock.config.catalog import Catalog
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.lake.storage.tables import Tables
from penstock.runtime.streams.paths import StreamPaths

NAME = "soak"
SLIDING, TUMBLING = "per_site", "per_kind"
IDLE_SECONDS = 8
KEEP = "PT3H"
"""Of event time, which runs some twenty times as fast as the clock: a few minutes."""
STEPS: dict[str, Any] = {
    SLIDING: {
        "keys": ["site"],
        "window": {"size": "PT10M", "slide": "PT2M"},
        "measures": {
            "n": "count(*)",
            "total": "sum(value)",
            "mean": "avg(value)",
            "low": "min(value)",
            "high": "max(value)",
            "amounts": "sum(amount)",
        },
        "slack": {"fixed": "PT5M"},
    },
    TUMBLING: {
        "keys": ["kind"],
        "where": "amount >= 0",
        "window": {"size": "PT1H"},
        "measures": {
            "n": "count(*)",
            "known": "count(value)",
            "amounts": "sum(amount)",
            "most": "max(amount)",
        },
        "slack": {"max_delay": {"bound": "PT30M"}},
    },
}
SLACKS: dict[str, tuple[dict[str, Any], ...]] = {
    SLIDING: tuple({"fixed": span} for span in ("PT3M", "PT5M", "PT8M")),
    TUMBLING: tuple({"max_delay": {"bound": span}} for span in ("PT30M", "PT45M")),
}


def slowness() -> float:
    """How many times longer things take than on an idle machine, roughly: limits are for that."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1) / 2)


@dataclass
class Scene:
    """Everything below one folder.

    Attributes:
        home: PENSTOCK_HOME of all processes.
        steps: as the pipeline file says them at present.
    """

    home: Path
    steps: dict[str, Any] = field(default_factory=lambda: {n: dict(s) for n, s in STEPS.items()})

    @property
    def settings(self) -> Settings:
        return Settings(home=self.home, lake="", pipelines=self.home / "pipelines")

    @property
    def live(self) -> Path:
        return self.home / "source" / "live"

    @property
    def history(self) -> Path:
        return self.home / "source" / "history"

    @property
    def tables(self) -> Tables:
        return Tables(self.settings.lake_uri, NAME)

    @property
    def lake(self) -> Path:
        return Path(self.settings.lake_uri) / NAME

    @property
    def paths(self) -> StreamPaths:
        return StreamPaths(self.settings.streams, NAME)

    @property
    def pipeline(self) -> Pipeline:
        return Catalog.read(self.settings.pipelines).pipeline(NAME)

    def write_yaml(self) -> None:
        """Replace the pipeline file as an editor does."""
        content = {
            "source": {
                "files": str(self.live),
                "format": "jsonl",
                "idle_after": f"PT{IDLE_SECONDS}S",
            },
            "history": {"files": str(self.history), "format": "jsonl"},
            "columns": {"uid": "long", "site": "string", "kind": "string", "value": "double",
                        "amount": "long"},
            "event_time": "at",
            "not_before": "2020-01-01T00:00:00Z",
            "id": {"column": "uid", "horizon": "PT10M"},
            "steps": self.steps,
            "audit": {"cron": "7 * * * *"},
            "keep": KEEP,
        }  # fmt: skip
        folder = self.settings.pipelines
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f".{NAME}.new"
        new.write_text(yaml.safe_dump(content, sort_keys=False))
        new.replace(folder / f"{NAME}.yaml")

    def change_slack(self, step: str, slack: dict[str, Any]) -> None:
        """What a user edits most."""
        self.steps[step] = self.steps[step] | {"slack": slack}
        self.write_yaml()
