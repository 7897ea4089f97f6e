"""Base of every configuration model: frozen, unknown keys refused."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints

_NAME = "[a-z][a-z0-9_]{0,47}"
NAME_RULE = rf"^{_NAME}$"
Name = Annotated[str, StringConstraints(pattern=NAME_RULE)]
PIPELINE_RULE = rf"^{_NAME}(-{_NAME})?$"
"""A file's name; of what is over one of its steps (``core/floor``) with that step's."""
SUFFIXES = (".yaml", ".yml")
"""Of pipeline files."""
PipelineName = Annotated[str, StringConstraints(pattern=PIPELINE_RULE)]
ColumnName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


WORD, KEYS = "[word]", "[keys]"
"""Tags of a value that may be written as a word or as keys: no part of where a problem is."""
BY_FORM = Discriminator(lambda value: KEYS if isinstance(value, dict | BaseModel) else WORD)


def digest_of(text: str) -> str:
    """A short name that is equal for equal texts alone."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def alike(names: Iterable[str]) -> str:
    """The first two names that differ only in case, which not every reader tells apart."""
    seen: dict[str, str] = {}
    for name in names:
        former = seen.setdefault(name.lower(), name)
        if former != name:
            return f"{former} and {name}"
    return ""


class Model(BaseModel):
    """A part of a pipeline file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Named(Model):
    """Which pipeline it is."""

    name: Name = Field(description="The file's name without .yaml.")
    path: Path = Field(description="The file.", exclude=True)
    description: str = Field(default="", description="What it is for; shown in Airflow.")
