"""What a latest must answer, in DuckDB's SQL over raw records: for a look from outside.

Raw records have no position: of those at a key's newest instant any one may be the newest.
"""

from penstock.kinds.latest.config import LatestConfig
from penstock.kinds.latest.spec import WHEN, LatestSpec


def names(step: LatestSpec) -> list[str]:
    """Of the values that raw records can tell: all but the position."""
    return [WHEN.name, *(column.name for column in step.kept)]


def columns(step: LatestSpec, config: LatestConfig) -> list[str]:  # noqa: ARG001  every kind's
    """The newest instant, one of the records there, and all of them as ``_newest``."""
    when = f'"{WHEN.name}"'
    found = [f"max({when}) as {when}"]
    found += [f'arg_max_null("{c.name}", {when}) as "{c.name}"' for c in step.kept]
    every = f"list(struct_pack(at := {when}, kept := {_kept(step, '')}))"
    newest = f"list_filter({every}, lambda x: x.at = max({when}))"
    return [*found, f"list_transform({newest}, lambda x: x.kept) as _newest"]


def unequal(step: LatestSpec, one: str, other: str) -> list[str]:  # noqa: ARG001  r has all
    """Conditions under which an answer is not a true one; ``r`` tells those."""
    when = f'"{WHEN.name}"'
    kept = f"not coalesce(list_contains(r._newest, {_kept(step, one + '.')}), false)"
    return [f"{one}.{when} is distinct from r.{when}", kept]


def _kept(step: LatestSpec, of: str) -> str:
    pairs = ", ".join(f'"{c.name}" := {of}"{c.name}"' for c in step.kept) or "nothing := 0"
    return f"struct_pack({pairs})"
