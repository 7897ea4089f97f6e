"""The overview of audits: what the sites below the docs folder say of themselves."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core.version import which_of
from penstock.runtime.streams import control
from penstock.runtime.streams.control import StreamStatus
from penstock.runtime.streams.paths import StreamPaths

log = logging.getLogger(__name__)

SHOWN_AUDITS = 20


@dataclass(frozen=True, slots=True)
class Site:
    """One pipeline's reports.

    Args:
        pipeline: its name, which is its folder's.
        latest: the newest audit, as the quality suite wrote it.
        audits: the newest ones, the oldest first.
        pictures: how good the timely answers of its steps were, file names by step.
    """

    pipeline: str
    latest: dict[str, Any]
    audits: list[dict[str, Any]]
    pictures: dict[str, str]

    @property
    def is_version(self) -> bool:
        """Whether it was proved beside the one in force: no job of its own records more of it."""
        return bool(which_of(self.pipeline))


def streams(folder: Path) -> list[tuple[str, StreamStatus]]:
    """Every stream that was ever started, by pipeline, as its supervisor and driver tell of it."""
    return [(name, control.status(StreamPaths(folder, name))) for name in control.names(folder)]


def sites(docs: Path) -> list[Site]:
    """All pipelines that were audited, by name; a site that cannot be read is left out."""
    if not docs.is_dir():
        return []
    folders = sorted(each for each in docs.iterdir() if not each.name.startswith("."))
    return [site for folder in folders if (site := _site(folder)) is not None]


def _site(folder: Path) -> Site | None:
    try:
        latest = json.loads((folder / "latest.json").read_text())
        audits = json.loads((folder / "audits.json").read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("audits cannot be read folder=%s error=%s", folder, error)
        return None
    drawn = {file.stem.removeprefix("timely-"): file.name for file in folder.glob("timely-*.svg")}
    return Site(folder.name, latest, audits[:SHOWN_AUDITS][::-1], dict(sorted(drawn.items())))
