"""The file of the cluster: its pool of nodes, how large it may be, when it is scaled."""

from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from croniter import croniter
from pydantic import Field, StringConstraints, ValidationError, model_validator

from penstock.config.forms import Cron
from penstock.config.model import Model
from penstock.config.problems import ConfigProblem, problem_in
from penstock.config.yaml_file import Unreadable, read_yaml
from penstock.core.errors import ConfigError
from penstock.core.scaling import Rules
from penstock.core.window import micros

PAGE = "docs/reference/cluster-file.md"
MEMORY_RULE = r"^[1-9][0-9]*[mg]$"
Memory = Annotated[str, StringConstraints(pattern=MEMORY_RULE)]
Share = Annotated[float, Field(gt=0, le=1)]
Span = Annotated[timedelta, Field(ge=timedelta(0))]


class PoolKind(StrEnum):
    """Where nodes come from."""

    STANDALONE = "standalone"
    COMPOSE = "compose"


COMPOSE_MASTER = "spark://spark-master:7077"
"""Of docker-compose.yaml."""


class Master(Model):
    """Where Spark's master listens."""

    host: str = Field(default="127.0.0.1", description="Address by which all reach it.")
    port: int = Field(default=7077, ge=1, le=65535, description="Port.")


class Worker(Model):
    """What each node gives to Spark."""

    cores: int = Field(default=1, ge=1, description="Tasks at the same time.")
    memory: Memory = Field(default="1g", description="Heap of an application's executor.")


class Nodes(Model):
    """How many nodes there are."""

    start: int = Field(default=1, ge=0, description="When the cluster comes up the first time.")
    least: int = Field(default=1, ge=0, description="The least that rules leave.")
    most: int = Field(default=4, ge=1, le=100, description="The most there may be.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.least <= self.start <= self.most:
            raise ValueError(
                f"start ({self.start}) lies outside of least ({self.least}) to most ({self.most})"
            )
        return self


class Hours(Model):
    """From an instant of a schedule on, another least number of nodes."""

    cron: Cron = Field(description="From when on. Five fields, UTC.")
    least: int = Field(ge=0, description="The least number of nodes, until another line's time.")


class Scale(Model):
    """When nodes come and go (S2J's tau0, tau1 and tau2, and their hold times)."""

    idle: Share = Field(default=0.20, description="tau0: less busy for in_after, nodes go.")
    busy: Share = Field(default=0.80, description="tau1: busy enough; half of it is aimed at.")
    overloaded: Share = Field(default=0.82, description="tau2: busier for out_after, nodes come.")
    out_after: Span = Field(default=timedelta(seconds=30), description="How long overloaded.")
    in_after: Span = Field(default=timedelta(minutes=5), description="How long idle.")
    cool_down: Span = Field(default=timedelta(minutes=1), description="Between two changes.")
    come: Span = Field(default=timedelta(minutes=2), description="For new nodes to register.")
    drain: Span = Field(default=timedelta(minutes=2), description="For a node's tasks to end.")
    schedule: tuple[Hours, ...] = Field(default=(), description="Other least numbers by time.")

    @property
    def target(self) -> float:
        """tau*, what a change aims at: beta tau1 with beta = 1/2."""
        return self.busy / 2

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.idle < self.target < self.busy <= self.overloaded:
            raise ValueError(
                f"idle ({self.idle}) must lie below half of busy ({self.target}), and busy"
                f" ({self.busy}) not above overloaded ({self.overloaded})"
            )
        return self


class Cluster(Model):
    """The file ``include/cluster.yaml``."""

    pool: PoolKind = Field(default=PoolKind.STANDALONE, description="Where nodes come from.")
    master: Master = Field(
        default=Master(), description="Spark's master; of pool compose the compose file's."
    )
    worker: Worker = Field(default=Worker(), description="What each node gives to Spark.")
    nodes: Nodes = Field(default=Nodes(), description="How many nodes there are.")
    scale: Scale = Field(default=Scale(), description="When nodes come and go.")

    @model_validator(mode="after")
    def _has_one_master(self) -> Self:
        if self.pool is PoolKind.COMPOSE and "master" in self.model_fields_set:
            raise ValueError(
                f"pool compose has the master of docker-compose.yaml, {COMPOSE_MASTER}. Delete"
                " master"
            )
        return self

    @property
    def url(self) -> str:
        """The master, as PENSTOCK_SPARK_MASTER names it."""
        if self.pool is PoolKind.COMPOSE:
            return COMPOSE_MASTER
        return f"spark://{self.master.host}:{self.master.port}"

    def rules(self, now: datetime) -> Rules:
        """When to scale, with the least number of nodes that holds now."""
        scale = self.scale
        return Rules(
            idle=scale.idle,
            target=scale.target,
            overloaded=scale.overloaded,
            out_after=micros(scale.out_after),
            in_after=micros(scale.in_after),
            cool_down=micros(scale.cool_down),
            least=min(self.least(now), self.nodes.most),
            most=self.nodes.most,
        )

    def least(self, now: datetime) -> int:
        """The least number of nodes that holds now: of the line whose time was last."""
        lines = [(croniter(line.cron, now).get_prev(datetime), n, line.least)
                 for n, line in enumerate(self.scale.schedule)]  # fmt: skip
        return max(lines)[2] if lines else self.nodes.least


def read_cluster(path: Path) -> Cluster:
    """The cluster that a file describes.

    Raises:
        ConfigError: it has problems; says all of them, with their lines.
    """
    found, problems = checked_cluster(path)
    if found is None:
        raise ConfigError("\n  ".join([f"{path.name} has problems:", *map(str, problems)]))
    return found


def checked_cluster(path: Path) -> tuple[Cluster | None, list[ConfigProblem]]:
    """The cluster, or all problems of its file in the order of their lines."""
    try:
        file = read_yaml(path, page=PAGE)
    except Unreadable as broken:
        return None, [broken.problem]
    try:
        found = Cluster.model_validate(file.content)
    except ValidationError as wrong:
        problems = [problem_in(dict(e), path, file.lines, Cluster) for e in wrong.errors()]
        return None, sorted([*file.wrong, *problems], key=lambda p: p.line)
    return (None, [*file.wrong]) if file.wrong else (found, [])
