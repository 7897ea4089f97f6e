"""Schemas of a step's partials on their way from source to reducer to sink."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.core.step import StepSpec
from penstock.kinds.windowed.layout import Layout, layout_of
from penstock.kinds.wire import SHED, Way


@dataclass(frozen=True)
class Wire(Way):
    """Schemas of a step's partials tables."""

    @cached_property
    def layout(self) -> Layout[StepSpec]:
        """Of the inner step."""
        return layout_of(self.inner)

    @cached_property
    def parts(self) -> pa.Schema:
        """As they come from the source and lie in the state."""
        return self.layout.schema("pane", "closed")

    @cached_property
    def answers(self) -> pa.Schema:
        """As windows leave the reducer."""
        return self.layout.schema("window_start")

    @cached_property
    def late(self) -> pa.Schema:
        """The same, and why they were missed."""
        return self.answers.append(SHED)
