"""The steps the tests answer, each twice: as a pipeline file says it, and for the oracle."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.config.pipeline import Pipeline
from penstock.config.streams import SeveralSources
from penstock.core.step import StepSpec
from tests import reference as ref
from tests.streams import BEGIN, SECOND, instant, us

COLUMNS = {
    "site": "string",
    "code": "long",
    "delay": "double",
    "bags": "long",
    "live": "boolean",
}


def make_pipeline(home: Path, steps: Mapping[str, Any], **overrides: Any) -> Pipeline:
    """A pipeline over ``home/live`` with the streams' columns."""
    content = {
        "name": "p",
        "path": home / "p.yaml",
        "source": {"files": str(home / "live"), "mode": "bounded"},
        "columns": COLUMNS,
        "event_time": "event_time",
        "skew": "P36500D",
        "not_before": "1900-01-01T00:00:00Z",
        "steps": steps,
    }
    return Pipeline.model_validate(content | overrides)


def make_several(
    home: Path, sources: Mapping[str, Any], steps: Mapping[str, Any], **more: Any
) -> Pipeline:
    """A pipeline over several sources."""
    content = {"name": "p", "path": home / "p.yaml", "sources": sources, "steps": steps, **more}
    return SeveralSources.model_validate(content)


def over(name: str) -> Any:
    """The value of a column."""
    return lambda record: record[name]


def _ratio(record: ref.Record) -> float | None:
    delay, bags = record["delay"], record["bags"]
    return None if delay is None or not bags else float(delay) / float(bags)


def _positive_or_live(record: ref.Record) -> bool:
    delay = record["delay"]
    return (delay is not None and delay > 0) or record["live"] is True


SIZES = ref.Measure("low", "min", over("delay")), ref.Measure("high", "max", over("delay"))
ROWS = ref.Measure("n", "count")

SITES = {
    "keys": ["site"],
    "window": {"size": "PT60S", "slide": "PT20S"},
    "measures": {
        "n": "count(*)",
        "total": "sum(delay)",
        "mean": "avg(delay)",
        "low": "min(delay)",
        "high": "max(delay)",
        "bags_sum": "sum(bags)",
        "known": "count(bags)",
    },
    "slack": {"fixed": "PT30S"},
}
SITES_REF = ref.Step(
    ("site",),
    ref.Window(60 * SECOND, 20 * SECOND),
    (
        ROWS,
        ref.Measure("total", "sum", over("delay")),
        ref.Measure("mean", "avg", over("delay")),
        *SIZES,
        ref.Measure("bags_sum", "sum", over("bags")),
        ref.Measure("known", "count", over("bags")),
    ),
    (ref.Slack("fixed", 30 * SECOND),),
)

CODES = {
    "keys": ["code"],
    "where": "delay > 0 OR live",
    "window": {"size": "PT50S"},
    "measures": {
        "n": "count(*)",
        "mean_bags": "avg(bags)",
        "least_bags": "min(bags)",
        "most_bags": "max(bags)",
        "ratio": "sum(delay / bags)",
    },
    "slack": {"max_delay": {"bound": "PT40S"}},
}
CODES_REF = ref.Step(
    ("code",),
    ref.Window(50 * SECOND, 50 * SECOND),
    (
        ROWS,
        ref.Measure("mean_bags", "avg", over("bags")),
        ref.Measure("least_bags", "min", over("bags")),
        ref.Measure("most_bags", "max", over("bags")),
        ref.Measure("ratio", "sum", _ratio),
    ),
    (ref.Slack("max_delay", 40 * SECOND),),
    _positive_or_live,
)

BOTH = {
    "keys": ["site", "code"],
    "window": {"size": "PT70S", "slide": "PT30S"},
    "measures": {"n": "count(*)", "total": "sum(delay)"},
    "slack": {"max_delay": {"bound": "P1D"}},
}
BOTH_REF = ref.Step(
    ("site", "code"),
    ref.Window(70 * SECOND, 30 * SECOND),
    (ROWS, ref.Measure("total", "sum", over("delay"))),
    (ref.Slack("max_delay", 86_400 * SECOND),),
)

RANKS = {
    "keys": ["site"],
    "window": {"size": "PT90S", "slide": "PT30S"},
    "measures": {
        "n": "count(*)",
        "middle": "median(delay)",
        "high": "quantile(delay, 0.9)",
        "low_bags": "quantile(bags, 0.07)",
        "mean": "avg(delay)",
        "ratio": "median(delay / bags)",
    },
    "slack": {"fixed": "PT20S"},
}
RANKS_REF = ref.Step(
    ("site",),
    ref.Window(90 * SECOND, 30 * SECOND),
    (
        ROWS,
        ref.Measure("middle", "quantile", over("delay"), 0.5),
        ref.Measure("high", "quantile", over("delay"), 0.9),
        ref.Measure("low_bags", "quantile", over("bags"), 0.07),
        ref.Measure("mean", "avg", over("delay")),
        ref.Measure("ratio", "quantile", _ratio, 0.5),
    ),
    (ref.Slack("fixed", 20 * SECOND),),
)

LANDMARK = {
    "window": {"since": "1970-01-01T00:00:37Z", "period": "PT100S"},
    "measures": {"n": "count(*)", "low": "min(delay)", "high": "max(delay)"},
    "slack": {"fixed": "PT0S"},
}
LANDMARK_REF = ref.Step(
    (),
    ref.Window(100 * SECOND, 100 * SECOND, 37 * SECOND, landmark=True),
    (ROWS, *SIZES),
    (ref.Slack("fixed", 0),),
)

SEEN = {
    "kind": "latest",
    "keys": ["site"],
    "where": "code IS NOT NULL",
    "every": "PT45S",
    "columns": ["code", "delay", "live"],
    "slack": {"fixed": "PT20S"},
}
SEEN_REF = ref.Step(
    ("site",),
    ref.Window(45 * SECOND, 45 * SECOND),
    (
        ref.Measure("event_time", "latest", lambda record: instant(record["event_time"])),
        *(ref.Measure(n, "latest", over(n)) for n in ("arrival_seq", "code", "delay", "live")),
    ),
    (ref.Slack("fixed", 20 * SECOND),),
    lambda record: record["code"] is not None,
)

CASES = {
    "sites": (SITES, SITES_REF),
    "codes": (CODES, CODES_REF),
    "both": (BOTH, BOTH_REF),
    "landmark": (LANDMARK, LANDMARK_REF),
    "ranks": (RANKS, RANKS_REF),
    "seen": (SEEN, SEEN_REF),
}


def case_of(seed: int) -> tuple[Any, ref.Step]:
    """The step of a seed; a seed that found something keeps its step when cases are added."""
    first = ("both", "codes", "landmark", "sites")
    if seed >= SEEN_FROM:
        return CASES["seen"]
    return CASES[first[seed % 4] if seed < RANKED else "ranks"]


RANKED, SEEN_FROM = 1_000, 2_000
"""Seeds from here on are of quantiles, and of newest records."""
HOURLY = SITES | {
    "window": {"size": "PT1H", "slide": "PT15M"},
    "measures": SITES["measures"] | {"middle": "median(delay)"},
    "slack": {"fixed": "PT10M"},
}
HOURLY_REF = ref.Step(
    SITES_REF.keys,
    ref.Window(3_600 * SECOND, 900 * SECOND),
    (*SITES_REF.measures, ref.Measure("middle", "quantile", over("delay"))),
    (ref.Slack("fixed", 600 * SECOND),),
)
LAST = SEEN | {"every": "PT15M", "slack": {"fixed": "PT10M"}}
LAST_REF = ref.Step(
    SEEN_REF.keys,
    ref.Window(900 * SECOND, 900 * SECOND),
    SEEN_REF.measures,
    (ref.Slack("fixed", 600 * SECOND),),
    SEEN_REF.where,
)
SINCE = CODES | {
    "window": {"since": BEGIN.isoformat(), "period": "PT20M"},
    "slack": {"max_delay": {"bound": "PT5M"}},
}
SINCE_REF = ref.Step(
    CODES_REF.keys,
    ref.Window(1_200 * SECOND, 1_200 * SECOND, us(BEGIN), landmark=True),
    CODES_REF.measures,
    (ref.Slack("max_delay", 300 * SECOND),),
    CODES_REF.where,
)


@dataclass(frozen=True)
class Case:
    """One step in both forms."""

    name: str
    spec: StepSpec
    oracle: ref.Step


def case(name: str) -> Case:
    """A step of ``CASES``, read from a pipeline."""
    spec, oracle = CASES[name]
    pipeline = make_pipeline(Path("/nowhere"), {name: spec})
    return Case(name, pipeline.spec(name), oracle)
