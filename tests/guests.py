"""Pipelines that stand on the log of another one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.config.guest import Guest
from tests.lakes import Lake, make_lake
from tests.steps import CASES


def guest(lake: Lake, name: str, case: str, **changes: Any) -> Lake:
    """A pipeline of one step on the log of a lake."""
    spec, oracle = CASES[case]
    content = {"name": name, "path": lake.home / f"{name}.yaml", "source": {"pipeline": "p"}}
    pipeline = Guest.model_validate(content | {"steps": {"s": spec | changes}})
    pipeline.link(lake.pipeline)
    return replace(lake, pipeline=pipeline, oracle=oracle, config={}, name="s")


def log_of(home: Path, case: str = "sites") -> Lake:
    """A log whose pipeline has a step of its own; nothing has come yet."""
    source = {"files": str(home / "live"), "format": "jsonl", "mode": "live"}
    (home / "live").mkdir(parents=True)
    return make_lake(home, CASES[case], source=source)
