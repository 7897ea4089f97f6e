"""A step's name for what it means stays the same from release to release."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core.expression import Column, Literal, MeasureSpec, Operation, QuantileSpec
from penstock.core.identity import canonical
from penstock.core.step import StepSpec
from penstock.core.window import WindowSpec
from penstock.kinds.aggregate.spec import AggregateSpec
from penstock.kinds.latest.spec import LatestSpec
from tests.steps import make_pipeline

BASE = {
    "keys": ["site"],
    "window": {"size": "PT60S", "slide": "PT20S"},
    "measures": {"n": "count(*)", "total": "sum(delay)"},
    "slack": {"fixed": "PT30S"},
}
SINCE = {"since": "2024-03-01T00:00:00Z", "period": "PT1H"}
GOLDEN = {
    "a plain one": (
        BASE,
        "7774b37c5943",
        '{"form":1,"input":"events","keys":[["site","string"]],"kind":"aggregate","measures":'
        '[{"function":"count","name":"n","over":null,"type":"long"},{"function":"sum","name":'
        '"total","over":{"column":["delay","double"]},"type":"double"}],"where":null,"window"'
        ':{"origin":0,"size":60000000,"slide":20000000}}',
    ),
    "of chosen records": (
        BASE | {"where": "delay >= 2 AND NOT live OR site IN ('a', 'ü')"},
        "2f036ea269cd",
        '{"form":1,"input":"events","keys":[["site","string"]],"kind":"aggregate","measures":'
        '[{"function":"count","name":"n","over":null,"type":"long"},{"function":"sum","name":'
        '"total","over":{"column":["delay","double"]},"type":"double"}],"where":{"arguments":'
        '[{"arguments":[{"arguments":[{"column":["delay","double"]},{"literal":2.0}],"operato'
        'r":">="},{"arguments":[{"column":["live","boolean"]}],"operator":"NOT"}],"operator":'
        '"AND"},{"arguments":[{"column":["site","string"]},{"literal":"a"},{"literal":"\\u00fc'
        '"}],"operator":"IN"}],"operator":"OR"},"window":{"origin":0,"size":60000000,"slide":'
        "20000000}}",
    ),
    "of a landmark": (
        BASE | {"window": SINCE, "keys": []},
        "0f3a5855388c",
        '{"form":1,"input":"events","keys":[],"kind":"aggregate","measures":[{"function":"cou'
        'nt","name":"n","over":null,"type":"long"},{"function":"sum","name":"total","over":{"'
        'column":["delay","double"]},"type":"double"}],"where":null,"window":{"landmark":true'
        ',"origin":1709251200000000,"size":3600000000,"slide":3600000000}}',
    ),
    "of quantiles": (
        BASE | {"measures": {"high": "quantile(delay / bags, 0.9)"}},
        "402942414a21",
        '{"form":1,"input":"events","keys":[["site","string"]],"kind":"aggregate","measures":'
        '[{"function":"quantile","name":"high","over":{"arguments":[{"column":["delay","doubl'
        'e"]},{"column":["bags","long"]}],"operator":"/"},"phi":0.9,"type":"double"}],"where"'
        ':null,"window":{"origin":0,"size":60000000,"slide":20000000}}',
    ),
    "of newest records": (
        {"kind": "latest", "keys": ["site"], "every": "PT1M", "columns": ["code", "live"]}
        | {"slack": {"fixed": "PT30S"}},
        "f0cd06609dbb",
        '{"form":1,"input":"events","kept":[["code","long"],["live","boolean"]],"keys":[["site'
        '","string"]],"kind":"latest","where":null,"window":{"origin":0,"size":60000000,"slide'
        '":60000000}}',
    ),
}

FIELDS = {
    AggregateSpec: {"keys", "where", "window", "measures"},
    LatestSpec: {"keys", "where", "window", "kept"},
    WindowSpec: {"size", "slide", "origin", "landmark"},
    MeasureSpec: {"name", "function", "over", "type"},
    QuantileSpec: {"name", "function", "over", "type", "phi"},
    Column: {"name", "type"},
    Literal: {"value"},
    Operation: {"operator", "arguments"},
}
MEANS_NOTHING = {kind: {"name", "slack"} for kind in (AggregateSpec, LatestSpec)}


def spec(step: dict[str, Any]) -> StepSpec:
    return make_pipeline(Path("/nowhere"), {"s": step}).spec("s")


@pytest.mark.parametrize("name", GOLDEN)
def test_a_release_makes_nobody_s_step_another_one(name: str) -> None:
    step, fingerprint, form = GOLDEN[name]
    assert canonical(spec(step)) == form
    assert spec(step).fingerprint == fingerprint


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_definition_is_in_its_form_or_means_nothing(kind: Any) -> None:
    assert {field.name for field in fields(kind) if field.init} == FIELDS[kind] | MEANS_NOTHING.get(
        kind, set()
    )
    # a new one: write it into penstock.core.identity where it is used, and only there


def test_how_a_number_is_written_changes_nothing_and_its_value_does() -> None:
    written = [spec(BASE | {"where": f"delay > {text}"}) for text in ("2", "2.0", "2e0", "3")]
    assert len({step.fingerprint for step in written}) == 2


def test_the_name_of_a_step_and_its_slack_mean_nothing() -> None:
    step = spec(BASE)
    other = replace(step, name="other", slack=spec(BASE | {"slack": {"fixed": "PT0S"}}).slack)
    assert other.fingerprint == step.fingerprint
