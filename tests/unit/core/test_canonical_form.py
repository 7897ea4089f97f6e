"""A step's name for what it means stays the same from release to release."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core.expression import Column, Literal, MeasureSpec, Operation, QuantileSpec
from penstock.core.identity import canonical
from penstock.core.measure import ColumnType
from penstock.core.side import SideJoin, SideTable
from penstock.core.slack import SlackPolicy, SlackSpec
from penstock.core.step import Above, StepSpec
from penstock.core.window import WindowSpec
from penstock.kinds.aggregate.spec import AggregateSpec
from penstock.kinds.custom.spec import CustomSpec, Program
from penstock.kinds.join.spec import JoinSpec
from penstock.kinds.latest.spec import LatestSpec
from penstock.kinds.lookup.spec import LookupSpec
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
    "of a look-up": (
        {"kind": "lookup", "keys": ["site"], "keep": {"last": 3}, "within": "PT1M"}
        | {"columns": ["code"], "alarm": "new.code <> old.code AND apart < 2"},
        "b969cdd6e28a",
        '{"alarm":{"arguments":[{"arguments":[{"column":["new.code","long"]},{"column":["old.'
        'code","long"]}],"operator":"<>"},{"arguments":[{"column":["apart","double"]},{"liter'
        'al":2.0}],"operator":"<"}],"operator":"AND"},"form":1,"input":"events","keep":3,"kep'
        't":[["code","long"]],"keys":[["site","string"]],"kind":"lookup","pairs":"all","reach'
        '":60000000,"where":null,"window":{"origin":0,"size":1000,"slide":1000}}',
    ),
    "of a join": (
        {"kind": "join", "on": ["site"], "within": "PT1M", "shift": "P1MT2S"}
        | {"where": "left.code <> right.code", "select": ["left.bags"], "slack": {"fixed": "PT1S"}}
        | {"queries": {"a": "left.bags > 1"}},
        "fc552a13047a",
        '{"condition":{"arguments":[{"column":["left.code","long"]},{"column":["right.code","'
        'long"]}],"operator":"<>"},"form":1,"input":"events","keys":[["site","string"]],"kind'
        '":"join","queries":true,"selected":[["left","bags","long"]],"shift":[1,2000000],"whe'
        're":null,"window":{"origin":0,"size":1000000,"slide":1000000},"within":[60000000,600'
        "00000]}",
    ),
}

FIELDS = {
    AggregateSpec: {"keys", "where", "window", "measures"},
    LatestSpec: {"keys", "where", "window", "kept"},
    LookupSpec: {"keys", "where", "window", "keep", "pairs", "reach", "kept", "alarm", "sides"},
    CustomSpec: {"keys", "where", "window", "own", "read", "said", "program", "sides"} | {"waits"},
    JoinSpec: {"keys", "where", "window", "shift", "before", "after", "condition", "selected"},
    SideTable: {"name", "columns", "keys"},
    SideJoin: {"table", "on"},
    WindowSpec: {"size", "slide", "origin", "landmark"},
    MeasureSpec: {"name", "function", "over", "type"},
    QuantileSpec: {"name", "function", "over", "type", "phi"},
    Column: {"name", "type"},
    Literal: {"value"},
    Operation: {"operator", "arguments"},
}
KINDS = (AggregateSpec, LatestSpec, LookupSpec, CustomSpec, JoinSpec)
FIELDS = {
    kind: own | ({"streams", "above"} if kind in KINDS else set()) for kind, own in FIELDS.items()
}
MEANS_NOTHING: dict[Any, set[str]] = {
    kind: {"name", "slack", "shed", "guest", "run", "parallelism"} for kind in KINDS
}
MEANS_NOTHING[JoinSpec] |= {"observed", "queries"}  # what else it names; that there are any counts
CODE = Program("Code", "class Code: pass", "p.py")
LIMITS = SideTable(
    "limits", (Column("site", ColumnType.STRING), Column("most", ColumnType.DOUBLE)), ("site",)
)
OF_CODE = CustomSpec(
    name="s",
    keys=(Column("site", ColumnType.STRING),),
    where=None,
    window=WindowSpec(1_000, 1_000),
    slack=SlackSpec(SlackPolicy.FIXED, 0),
    own=(Column("site", ColumnType.STRING),),
    read=(Column("delay", ColumnType.DOUBLE),),
    said=(Column("n", ColumnType.LONG),),
    program=CODE,
    sides=(SideJoin(LIMITS, (("site", "site"),)),),
)


def spec(step: dict[str, Any]) -> StepSpec:
    return make_pipeline(Path("/nowhere"), {"s": step}).spec("s")


@pytest.mark.parametrize("name", GOLDEN)
def test_a_release_makes_nobody_s_step_another_one(name: str) -> None:
    step, fingerprint, form = GOLDEN[name]
    assert canonical(spec(step)) == form
    assert spec(step).fingerprint == fingerprint


def test_code_is_its_text_wherever_it_lies() -> None:
    assert OF_CODE.fingerprint == "e0a7371040aa"
    assert canonical(OF_CODE) == (
        '{"code":["Code","a5f976a6e0b84c8f"],"form":1,"input":"events","keys":[["site","strin'
        'g"]],"kind":"custom","own":["site"],"read":[["delay","double"]],"said":[["n","long"]'
        '],"sides":[{"columns":[["most","double"],["site","string"]],"on":[["site","site"]],"'
        'table":"limits"}],"where":null,"window":{"origin":0,"size":1000,"slide":1000}}'
    )
    moved = replace(CODE, path="q.py")
    assert replace(OF_CODE, program=moved).fingerprint == OF_CODE.fingerprint
    other = replace(CODE, text=f"{CODE.text}\n")
    assert replace(OF_CODE, program=other).fingerprint != OF_CODE.fingerprint


@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_every_field_of_a_definition_is_in_its_form_or_means_nothing(kind: Any) -> None:
    assert {field.name for field in fields(kind) if field.init} == FIELDS[kind] | MEANS_NOTHING.get(
        kind, set()
    )
    # a new one: write it into penstock.core.identity where it is used, and only there


def test_how_a_number_is_written_changes_nothing_and_its_value_does() -> None:
    written = [spec(BASE | {"where": f"delay > {text}"}) for text in ("2", "2.0", "2e0", "3")]
    assert len({step.fingerprint for step in written}) == 2


def test_the_name_of_a_step_its_slack_and_what_it_sheds_mean_nothing() -> None:
    step = spec(BASE)
    assert spec(BASE | {"shed": {"base": 0.5}}).fingerprint == step.fingerprint
    other = replace(step, name="other", slack=spec(BASE | {"slack": {"fixed": "PT0S"}}).slack)
    assert other.fingerprint == step.fingerprint


def test_what_a_step_takes_for_its_records_is_part_of_it() -> None:
    step = spec(BASE)
    over = replace(step, above=Above("0123456789ab", ("site",)))
    assert canonical(over) == canonical(step).replace(
        '"input":"events"', '"input":["answers","0123456789ab"]'
    )
