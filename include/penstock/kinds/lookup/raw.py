"""Which alarms a look-up must have, in DuckDB's SQL over raw records: for a look from outside.

``record`` has the declared columns, ``event_time``, and ``_seq``, the number of each record.
"""

import re
from collections.abc import Mapping

from penstock.kinds.lookup.config import LookupConfig
from penstock.kinds.lookup.spec import EARLIER, LookupSpec, Pairs

NAMED = re.compile(r"(?<![.\w])apart\b")
BY_TIME = re.compile(r"(?<![.\w])(earlier|later)\.(\w+)")


def names(step: LookupSpec) -> list[str]:
    """Of the values that raw records can tell: all."""
    return [value.name for value in step.values]


def unequal(step: LookupSpec, one: str, other: str) -> list[str]:
    """Conditions under which two alarms of the same records differ."""
    return [f'{one}."{name}" is distinct from {other}."{name}"' for name in names(step)]


def records(step: LookupSpec, config: LookupConfig) -> str:
    """SQL: the records that are compared."""
    whole = "".join(f' and "{key}" is not null' for key in step.key_names)
    return f"select * from record where ({config.where or 'true'}){whole}"  # noqa: S608


def answers(step: LookupSpec, config: LookupConfig, sides: Mapping[str, str]) -> str:
    """SQL: every alarm.

    Args:
        step: the look-up.
        config: as the file says it; its condition is SQL already.
        sides: what to read each side table from.
    """
    keys = ", ".join(f'new."{key}"' for key in step.key_names)
    kept = ", ".join(f'{s}."{c.name}" as "{s}_{c.name}"' for s in ("new", "old") for c in step.kept)
    beside = "".join(
        f' left join {sides[join.table.name]} as "{join.table.name}" on '
        + " and ".join(
            f'"{join.table.name}"."{key}" = {_by_time(column)}' for key, column in join.on
        )
        for join in step.sides
    )
    apart = "abs(epoch_us(new.event_time) - epoch_us(old.event_time)) / 1e6"
    return f"""
        with kept as ({records(step, config)}), pair as ({_pairs(step)})
        select epoch_us(new.event_time) // {step.window.size} * {step.window.size} as _start,
            {keys}, new._seq as new_seq, old._seq as old_seq, 2 as n_records,
            new.event_time as new_time, old.event_time as old_time, {kept or "0 as _nothing"}
        from (select greatest(a, b) as later, least(a, b) as earlier from pair)
        join kept as new on new._seq = later join kept as old on old._seq = earlier {beside}
        where ({NAMED.sub(f"({apart})", _by_time(config.alarm))})
    """  # noqa: S608


def _by_time(text: str) -> str:
    """Names of the earlier and the later record by those that new and old have."""

    def named(found: re.Match[str]) -> str:
        side, column = found.groups()
        first, other = ("old", "new") if side == EARLIER else ("new", "old")
        forward = "new.event_time >= old.event_time"
        return f'(case when {forward} then {first}."{column}" else {other}."{column}" end)'

    return BY_TIME.sub(named, text)


def _pairs(step: LookupSpec) -> str:
    """SQL: numbers of the records of each pair."""
    names = ", ".join(f'"{key}"' for key in step.key_names)
    if step.pairs is Pairs.CONSECUTIVE:
        order = f"partition by {names} order by event_time, _seq"
        return f"select _seq as a, lag(_seq) over ({order}) as b from kept qualify b is not null"  # noqa: S608
    near = f"abs(epoch_us(x.event_time) - epoch_us(y.event_time)) <= {step.reach}"
    alike = " and ".join(f'x."{key}" = y."{key}"' for key in step.key_names)
    return (
        "select x._seq as a, y._seq as b from kept as x join kept as y"  # noqa: S608
        f" on {alike} and x._seq < y._seq and {near}"
    )
