"""Where Airflow's side meets the library: settings and pipelines at parse time, spec of a stream.

Nothing here may reach an engine: DAG files are parsed every few seconds.
"""

from contextlib import suppress
from datetime import UTC, datetime

from airflow.sdk import Asset

from penstock.config.catalog import Catalog
from penstock.config.cluster import Cluster, checked_cluster
from penstock.config.kept import catalog_in_force, keep
from penstock.config.pipeline import Pipeline
from penstock.config.problems import ConfigProblem
from penstock.config.settings import Settings
from penstock.core.kinds import has_part
from penstock.core.version import FORMER, pipeline_of, which_of
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.spec import StreamSpec

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Start date of every DAG: Airflow refuses to backfill intervals before it."""


def settings() -> Settings:
    """Settings of this process."""
    return Settings()


def catalog() -> Catalog:
    """All pipelines in force, and the problems of files; what is in use is kept.

    A disk that is full must not take the DAGs with it.
    """
    here = settings()
    found = catalog_in_force(here)
    with suppress(OSError):
        keep(here, found)
    return found


def cluster() -> tuple[Cluster | None, list[ConfigProblem]]:
    """The node pool, or what is wrong with its file; without a file there is neither."""
    file = settings().cluster
    return checked_cluster(file) if file.exists() else (None, [])


def answers(pipeline: str) -> Asset:
    """The asset that says: answers of a pipeline changed other than by its stream."""
    return Asset(name=f"answers__{pipeline}", uri=f"penstock://answers/{pipeline}")


def stream_paths(log: str) -> StreamPaths:
    """Files of the stream of a log."""
    return StreamPaths(settings().streams, log)


def stream_spec(log: str, digest: str | None) -> StreamSpec:
    """What the supervisor of a log's stream is to run; ``digest``: of what its file says of it."""
    return StreamSpec.of(settings(), log, digest)


def joins(pipeline: Pipeline) -> list[str]:
    """The steps of a pipeline of whose pairs the log can be asked."""
    return [step.name for step in pipeline.specs if has_part(step.kind, "asked")]


def former() -> list[str]:
    """Pipelines of which a former version stands by."""
    names = (version.name for version in catalog().versions)
    return [pipeline_of(name) for name in names if which_of(name) == FORMER]


def explain(text: str, pipeline: Pipeline) -> str:
    """Put a pipeline into the text a DAG shows to people, for NAME, DESCRIPTION and STEPS."""
    steps = ", ".join(f"`{name}`" for name in pipeline.steps)
    said = pipeline.description or "(no description)"
    return text.replace("NAME", pipeline.name).replace("DESCRIPTION", said).replace("STEPS", steps)
