"""What can be read of a pipeline file that has problems elsewhere: so more of them are found."""

from typing import Any

from pydantic import ValidationError

from penstock.config.problems import Loc
from penstock.config.side import SideConfig
from penstock.config.step import StepConfig, config_of, kind_of
from penstock.core.kinds import KINDS, USUAL
from penstock.core.measure import ColumnType
from penstock.core.side import SideTable
from penstock.core.step import ONLY


def readable_types(content: dict[Any, Any]) -> dict[str, dict[str, ColumnType]]:
    """Declared types by stream, as far as they can be read from a file with problems elsewhere."""
    sources = content.get("sources")
    some = sources if isinstance(sources, dict) else {}
    named = {str(name): source for name, source in some.items() if isinstance(source, dict)}
    streams = named if "sources" in content else {ONLY: content}
    return {name: _types_of(source.get("columns")) for name, source in streams.items()}


def _types_of(columns: object) -> dict[str, ColumnType]:
    types = {}
    for name, declared in (columns if isinstance(columns, dict) else {}).items():
        kind = declared.get("type") if isinstance(declared, dict) else declared
        # A wrong type is one problem, not one more in every step that uses the column.
        types[str(name)] = ColumnType(kind) if kind in set(ColumnType) else ColumnType.DOUBLE
    return types


def readable_sides(content: dict[Any, Any]) -> dict[str, SideTable | None]:
    """Side data of a file that has problems elsewhere; with none in place of what is wrong."""
    load = content.get("load")
    found = dict[str, SideTable | None]()
    for name, raw in (load if isinstance(load, dict) else {}).items():
        try:
            found[str(name)] = SideConfig.model_validate(raw).table(str(name))
        except ValidationError:  # reported with the whole file
            found[str(name)] = None
    return found


def of_no_kind(content: dict[Any, Any]) -> set[Loc]:
    """Steps that name a kind that there is none of: what else they say means nothing yet."""
    steps = content.get("steps")
    named = steps.items() if isinstance(steps, dict) else ()
    return {(name,) for name, raw in named
            if isinstance(raw, dict) and raw.get("kind", USUAL) not in KINDS}  # fmt: skip


def readable_steps(content: dict[Any, Any]) -> dict[str, StepConfig]:
    """The steps that are valid by themselves, of a file that has problems elsewhere."""
    steps = content.get("steps")
    found = {}
    for name, raw in (steps if isinstance(steps, dict) else {}).items():
        try:
            found[str(name)] = config_of(kind_of(raw)).model_validate(raw)
        except ValidationError:  # reported with the whole file
            continue
    return found
