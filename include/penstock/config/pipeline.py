"""The model of a pipeline file. The reference page is generated from the descriptions here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Self

from pydantic import Field, PrivateAttr

from penstock.config.intake import Definition, History, Intake, Mode
from penstock.config.model import Name, Named, digest_of
from penstock.config.running import Correction, MicroBatch, Schedule
from penstock.config.side import SideConfig
from penstock.config.snapshots import Snapshots
from penstock.config.step import ByKind, Given, StepConfig, code_of
from penstock.core.side import SideTable
from penstock.core.step import ONLY, StepSpec
from penstock.core.version import pipeline_of

TOGETHER, APART = "together", "apart"
"""Names of queries: of the one that runs all steps but those that run apart."""


class Pipeline(Snapshots, Intake, Named):
    """One pipeline: a source, its columns, and the steps over its events."""

    load: dict[Name, SideConfig] = Field(
        default_factory=dict, description="Side data: small tables that steps look things up in."
    )
    steps: dict[Name, Annotated[StepConfig, ByKind()]] = Field(
        min_length=1, description="Answers wanted, by name."
    )
    micro_batch: MicroBatch = Field(
        default=MicroBatch(least=4_000_000),
        description="Bounds between which the stream finds the size of its micro-batches; without"
        " them it takes up to 4,000,000 records at once.",
    )
    correction: Correction = Field(
        default=Correction(cron="*/15 * * * *"), description="When late records are repaired."
    )
    audit: Schedule = Field(
        default=Schedule(cron="7 * * * *"), description="When the answers are recomputed."
    )
    keep: timedelta | None = Field(
        default=None,
        gt=timedelta(0),
        description="Event time for which records stay; then their windows are frozen, and only"
        " answers stay. None: for ever.",
    )
    _specs: tuple[StepSpec, ...] | None = PrivateAttr(default=None)

    @property
    def intakes(self) -> Mapping[str, Intake]:
        """What the door takes, by stream; the stream of the only source has no name."""
        return {ONLY: self}

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams; none: there is one source."""
        return ()

    @property
    def log(self) -> str:
        """The pipeline whose log it stands on: its own, or another one's."""
        return pipeline_of(self.name)

    def is_live(self, streams: Sequence[str] = ()) -> bool:
        """Whether one of some sources never ends; by default of all."""
        asked = streams or self.intakes.keys()
        return any(self.intakes[name].source.mode is Mode.LIVE for name in asked)

    @property
    def histories(self) -> dict[str, History]:
        """What is preloaded, by stream."""
        found = {name: intake.history for name, intake in self.intakes.items()}
        return {name: history for name, history in found.items() if history is not None}

    @cached_property
    def own_specs(self) -> tuple[StepSpec, ...]:
        """The steps with their expressions read, each with a run of its own.

        Raises:
            ValueError: an expression is wrong; ``Catalog`` reports it with its line.
        """
        every = self.steps.items()
        return tuple(self.placed(step.whole(name, self.given_to(step))) for name, step in every)

    @property
    def specs(self) -> tuple[StepSpec, ...]:
        """The steps, with the runs that they have."""
        return self._specs or self.own_specs

    def share(self, runs: Mapping[str, str]) -> None:
        """Say which run each step has, by its name."""
        own = self.own_specs
        self._specs = tuple(replace(step, run=runs.get(step.name, "")) for step in own)

    def beside(self, in_force: "Pipeline", name: str) -> Self:
        """The same as a version of the one in force, on whose log it stands as that says it."""
        found = self.model_copy(update={"name": name})
        found.__dict__.pop("digest", None)
        said = {"log_digest": in_force.log_digest, "definitions": in_force.definitions}
        found.__dict__.update(said)  # as if they had been asked for
        return found

    def placed(self, step: StepSpec) -> StepSpec:
        """A step of this pipeline's that knows what its records are."""
        return step

    def given_to(self, step: StepConfig) -> Given:
        """What a step is given: columns of the streams that it reads."""
        some = tuple(self.intakes[name].types for name in step.streams or self.intakes)
        types = {name: kind for each in some for name, kind in each.items()}
        return Given(types, self.sides, code_of(self.path), some)

    @cached_property
    def sides(self) -> dict[str, SideTable]:
        """Side data by name."""
        return {name: side.table(name) for name, side in self.load.items()}

    @property
    def side_tables(self) -> dict[str, SideTable]:
        """Side data by name, with what steps hold of it."""
        own = (declared.table for spec in self.specs for declared in spec.declares)
        return {**self.sides, **{table.name: table for table in own}}

    @property
    def least_kept(self) -> tuple[int, str]:
        """The shortest ``keep`` by which nothing of an open window goes, us, and for which step."""
        spans = ((s.lag + s.window.size + s.lead + s.slack.longest, s.name) for s in self.specs)
        return max(spans)

    @property
    def queries(self) -> dict[str, tuple[StepSpec, ...]]:
        """The steps by the query that runs them: one for all, and one for each that is apart."""
        found: dict[str, list[StepSpec]] = {}
        for step in self.specs:
            name = f"{APART}-{step.id}" if self.steps[step.name].apart else TOGETHER
            found.setdefault(name, []).append(step)
        return {name: tuple(steps) for name, steps in found.items()}

    def query_of(self, step: str) -> str:
        """Name of the query that runs a step."""
        found = self.queries.items()
        return next(name for name, steps in found if step in {s.name for s in steps})

    def spec(self, step: str) -> StepSpec:
        """One step; KeyError if there is none of that name."""
        return {s.name: s for s in self.specs}[step]

    def keys_of(self, stream: str) -> tuple[str, ...]:
        """Columns some step uses as a key: none of them may be missing in a record of a stream."""
        mine = (spec for spec in self.specs if stream in (spec.streams or (ONLY,)))
        keys = {key.name for spec in mine for key in spec.required}
        return tuple(sorted(keys & self.intakes[stream].types.keys()))

    @property
    def said(self) -> str:
        """What the file says, but for what a stream follows by itself, or readers ask for."""
        followed = {name: step.followed for name, step in self.steps.items() if step.followed}
        return self.model_dump_json(exclude={"steps": followed, "snapshots": True})

    @cached_property
    def digest(self) -> str:
        """Names what the file says: equal digests mean the same, and no process starts again."""
        return digest_of(self.said)

    @cached_property
    def log_digest(self) -> str:
        """Names what the file says of its log: steps come and go on it while it is the same."""
        said = [each.to_text() for each in self.definitions.values()]
        said.append(self.model_dump_json(include={"load", "micro_batch"}))
        return digest_of("".join(said))

    @property
    def keys(self) -> tuple[str, ...]:
        """Those of the only stream."""
        return self.keys_of(ONLY)

    @property
    def definition(self) -> Definition:
        """That of the only stream."""
        return self.definitions[ONLY]

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """What the door's verdicts on records of each stream depend on."""
        found = {}
        for stream, intake in self.intakes.items():
            known = {name: getattr(intake, name) for name in Intake.model_fields}
            known["keys"] = self.keys_of(stream)
            found[stream] = Definition.model_validate(known)
        return found
