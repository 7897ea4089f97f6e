"""Base of every configuration model: frozen, unknown keys refused."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

NAME_RULE = r"^[a-z][a-z0-9_]{0,47}$"
Name = Annotated[str, StringConstraints(pattern=NAME_RULE)]
ColumnName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class Model(BaseModel):
    """A part of a pipeline file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
