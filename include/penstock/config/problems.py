"""Problems of a pipeline file: where, what, and the remedy."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from penstock.config import remedies
from penstock.config.model import KEYS, WORD
from penstock.config.step import config_of

Loc = tuple[str | int, ...]
UNSAID = {"[key]", WORD, KEYS}
"""Parts of an error's place that the file does not have."""
KIND = 2
"""Where the kind of a step stands in the location of an error."""


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One problem of one file.

    Attributes:
        path: the file.
        line: 1 for the first.
        where: the keys that lead to it, joined by dots.
        problem: what is wrong, and the remedy.
    """

    path: Path
    line: int
    where: str
    problem: str
    remedy: str = ""

    def __str__(self) -> str:
        """``file:line  where  problem  remedy``."""
        said = f"{self.path}:{self.line}  {self.where}  {self.problem}"
        return f"{said}. {self.remedy}" if self.remedy else said


def problem_in(
    error: dict[str, Any], path: Path, lines: dict[Loc, int], model: type[BaseModel]
) -> ConfigProblem:
    """An error of validation, as people are told of it; ``model``: of the whole file."""
    full: Loc = tuple(part for part in error["loc"] if part not in UNSAID)
    loc = full[:KIND] + full[KIND + 1 :] if full[:1] == ("steps",) else full
    message = str(error["msg"]).removeprefix("Value error, ")
    remedy = ""
    if error["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(loc[-1]), _fields(full, model), 1, 0.5)
        message = "unknown key"
        remedy = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(_fields(full, model))}"
    elif error["type"] == "missing":
        message, remedy = "is missing", f"Add {loc[-1]}: {_meaning(full, model)}"
    elif meant := remedies.of_value(str(error["type"]), error["input"], message):
        message, remedy = meant
    elif error["type"] == "string_pattern_mismatch":
        remedy = "Use small letters, digits and _, a letter first"
    elif loc == ("name",):
        message += f" (file name {path.name})"
    return ConfigProblem(path, line_in(loc, lines), dots(loc) or "file", message, remedy)


def _model(loc: Loc, model: type[BaseModel]) -> type[BaseModel]:
    """The model that a location lies in."""
    if loc[:1] == ("steps",) and len(loc) > KIND:
        model, loc = config_of(str(loc[KIND])), loc[KIND + 1 :]
    for part in loc[:-1]:
        known = model.model_fields.get(str(part))
        inner = [known.annotation, *getattr(known.annotation, "__args__", ())] if known else []
        plain = [getattr(t, "__origin__", t) for t in inner]  # of Annotated[...]
        models = [t for t in plain if isinstance(t, type) and issubclass(t, BaseModel)]
        model = models[0] if models else model
    return model


def _fields(loc: Loc, model: type[BaseModel]) -> list[str]:
    fields = _model(loc, model).model_fields
    return [f.alias or n for n, f in fields.items() if n not in {"name", "path"} and not f.exclude]


def _meaning(loc: Loc, model: type[BaseModel]) -> str:
    known = _model(loc, model).model_fields.get(str(loc[-1]))
    return (known.description or "") if known else ""


def line_in(loc: Loc, lines: dict[Loc, int]) -> int:
    """The line of some keys, or of the nearest of those that hold them."""
    while loc and loc not in lines:
        loc = loc[:-1]
    return lines.get(loc, 1)


def dots(loc: Loc) -> str:
    """Keys as text."""
    return ".".join(str(part) for part in loc)
