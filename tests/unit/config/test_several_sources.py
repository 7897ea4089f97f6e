"""A pipeline over several sources: what its file may say, and what is told of a wrong one."""

from datetime import timedelta
from pathlib import Path

import pytest

from penstock.config.catalog import Catalog
from penstock.config.pipeline import Pipeline
from penstock.core.identity import canonical
from penstock.core.measure import ColumnType

GOOD = """\
sources:
  current:
    source: {files: in/current, format: jsonl}
    columns: {site: string, delay: double}
    event_time: t
  past:
    source: {files: in/past, format: csv, mode: bounded}
    columns:
      site: string
      weight: long
    event_time: at
    zone: Europe/Zurich
    skew: PT1M
steps:
  delays:
    stream: current
    keys: [site]
    window: {size: PT1H}
    measures: {mean: avg(delay)}
    slack: {fixed: PT5M}
  weights:
    stream: past
    window: {size: PT1H}
    measures: {most: max(weight)}
    slack: {fixed: PT5M}
"""
ONE = """\
source: {files: in/current, format: jsonl}
columns: {site: string, delay: double}
event_time: t
steps:
  delays:
    keys: [site]
    window: {size: PT1H}
    measures: {mean: avg(delay)}
    slack: {fixed: PT5M}
"""


def read(folder: Path, text: str) -> Catalog:
    (folder / "p.yaml").write_text(text)
    return Catalog.read(folder)


def pipeline(folder: Path, text: str = GOOD) -> Pipeline:
    catalog = read(folder, text)
    assert not catalog.errors, catalog.errors
    return catalog.pipeline("p")


def test_each_source_has_what_a_file_of_one_has_at_its_top(tmp_path: Path) -> None:
    found = pipeline(tmp_path)
    assert found.streams == ("current", "past")
    assert found.intakes["past"].zone == "Europe/Zurich"
    assert found.intakes["current"].zone == "UTC"
    assert [found.is_live(), found.is_live(("past",)), found.is_live(("current",))] == [
        True, False, True,
    ]  # fmt: skip


def test_records_of_several_sources_may_go(tmp_path: Path) -> None:
    catalog = read(tmp_path, GOOD + "keep: P30D\n")
    assert not catalog.errors
    assert catalog.pipeline("p").keep == timedelta(days=30)


def test_the_table_of_events_has_the_columns_of_all_and_the_name_of_the_stream(
    tmp_path: Path,
) -> None:
    assert pipeline(tmp_path).types == {
        "stream": ColumnType.STRING, "site": ColumnType.STRING, "delay": ColumnType.DOUBLE,
        "weight": ColumnType.LONG,
    }  # fmt: skip


def test_a_record_must_have_the_keys_of_the_steps_over_its_stream(tmp_path: Path) -> None:
    found = pipeline(tmp_path)
    assert {name: d.keys for name, d in found.definitions.items()} == {
        "current": ("site",), "past": (),
    }  # fmt: skip


def test_the_stream_is_part_of_what_an_answer_means(tmp_path: Path) -> None:
    (step, _), (alone,) = pipeline(tmp_path).specs, pipeline(tmp_path, ONE).specs
    assert (step.streams, alone.streams) == (("current",), ())
    assert '"input":["events","current"]' in canonical(step)
    assert '"input":"events"' in canonical(alone)
    assert step.fingerprint != alone.fingerprint


def test_a_pipeline_of_one_source_is_what_it_was_before_there_could_be_several(
    tmp_path: Path,
) -> None:
    found = pipeline(tmp_path, ONE)
    assert found.digest == "642b255bd042"
    assert found.specs[0].fingerprint == "0f6a4c3dcaaf"
    assert "stream" not in found.model_dump_json()
    assert pipeline(tmp_path, ONE + "snapshots: {late: delay > 9}").digest == found.digest
    assert found.definitions == {"": found.definition}


PROBLEMS = {
    "no stream": (GOOD.replace("    stream: current\n", ""), [
        "p.yaml:15  steps.delays.stream  is missing: there are several sources."
        " Add stream: one of current, past"]),
    "a stream that is not there": (GOOD.replace("stream: past", "stream: passed"), [
        "p.yaml:22  steps.weights.stream  no source is called passed. Did you mean past?"]),
    "a stream far from any": (GOOD.replace("stream: past", "stream: zzz"), [
        "p.yaml:22  steps.weights.stream  no source is called zzz. There are: current, past"]),
    "a stream where there is one source": (ONE.replace("keys:", "stream: a\n    keys:"), [
        "p.yaml:6  steps.delays.stream  the pipeline has one source, and every step reads that."
        " Delete stream"]),
    "another stream's column": (GOOD.replace("avg(delay)", "avg(weight)"), [
        "p.yaml:19  steps.delays.measures.mean  column weight is not declared: add it under columns"
        " (declared: delay, site)"]),
    "one name of two types": (GOOD.replace("weight: long", "delay: long").replace(
        "max(weight)", "max(delay)"), [
        "p.yaml:10  sources.past.columns.delay  is long here and double in current, and all records"
        " share one table. Declare one of them as my_delay: {type: ..., from: delay}"]),
    "names that differ in case": (GOOD.replace("weight: long", "Delay: double").replace(
        "weight)", "Delay)"), [
        "p.yaml:10  sources.past.columns.Delay  current declares delay: the names differ only in"
        " case. Declare one of them as my_Delay: {type: ..., from: Delay}"]),
    "a column of the tables' own": (GOOD.replace("weight", "stream"), [
        "p.yaml:8  sources.past.columns  column stream: the tables use this name themselves."
        " Declare it under another one: my_stream: {type: ..., from: stream}"]),
    "what belongs to one": (GOOD + "zone: UTC\nevent_time: t\n", [
        "p.yaml:26  zone  with sources, zone belongs to each of them. Move it below sources.NAME",
        "p.yaml:27  event_time  with sources, event_time belongs to each of them."
        " Move it below sources.NAME"]),
    "a key of a source that is not there": (GOOD.replace("skew: PT1M", "skow: PT1M"), [
        "p.yaml:13  sources.past.skow  unknown key. Did you mean skew?"]),
    "a source without its event time": (GOOD.replace("    event_time: at\n", ""), [
        "p.yaml:6  sources.past.event_time  is missing."
        " Add event_time: Source column of the event time."]),
    "no source at all": (GOOD.replace(GOOD[: GOOD.index("steps:")], "sources: {}\n"), [
        "p.yaml:1  sources  Dictionary should have at least 1 item after validation, not 0",
        "p.yaml:4  steps.delays.stream  no source is called current. There are: none",
        "p.yaml:10  steps.weights.stream  no source is called past. There are: none"]),
    "snapshots": (
        GOOD + "snapshots:\n  a: delay > 1\n  b: {stream: zzz, where: delay > 1}\n"
        "  c: {stream: past, where: delay > 1}\n  d:\n    stream: past\n    where: weight\n", [
        "p.yaml:27  snapshots.a.stream  is missing. Name one of current, past",
        "p.yaml:28  snapshots.b.stream  no source is called so. Name one of current, past",
        "p.yaml:29  snapshots.c.where  column delay is not declared: add it under columns"
        " (declared: site, weight)",
        "p.yaml:32  snapshots.d.where  'weight' is not a condition: compare it with something, as"
        " in x > 0"]),
    "a snapshot's stream where there is one source": (
        ONE + "snapshots: {a: {stream: current, where: delay > 1}, b: delay = }\n", [
        "p.yaml:10  snapshots.a.stream  the pipeline has one source. Delete stream",
        "p.yaml:10  snapshots.b.where  cannot read 'delay =': Required keyword: 'expression'"
        " missing. Line 1, Col: 7."]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_message_says_where_what_and_the_remedy(tmp_path: Path, name: str) -> None:
    text, expected = PROBLEMS[name]
    found = [str(e).removeprefix(f"{tmp_path}/") for e in read(tmp_path, text).errors]
    assert found == expected
