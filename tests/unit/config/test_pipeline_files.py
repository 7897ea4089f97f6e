"""A wrong pipeline file: every problem with file, line, place and remedy; the others go on."""

from pathlib import Path

import pytest

from penstock.config.catalog import Catalog, ConfigDriftError, UnknownPipelineError

GOOD = """\
source: {files: in, format: jsonl}
columns:
  site: string
  delay: {type: double, from: arr_delay}
event_time: t
steps:
  per_site:
    keys: [site]
    window: {size: PT1H}
    measures:
      n: count(*)
      mean: avg(delay)
    slack: {fixed: PT5M}
"""


def read(folder: Path, text: str, name: str = "bad.yaml") -> Catalog:
    (folder / "good.yaml").write_text(GOOD)
    (folder / name).write_text(text)
    return Catalog.read(folder)


def said(folder: Path, text: str, name: str = "bad.yaml") -> list[str]:
    """The problems; the good file must have survived them."""
    catalog = read(folder, text, name)
    assert [p.name for p in catalog.pipelines] == ["good"]
    return [str(e).removeprefix(f"{folder}/") for e in catalog.errors]


def test_a_good_file_has_no_problem(tmp_path: Path) -> None:
    catalog = read(tmp_path, GOOD)
    assert [p.name for p in catalog.pipelines] == ["bad", "good"]
    assert not catalog.errors
    step = catalog.pipeline("good").spec("per_site")
    assert [m.name for m in step.measures] == ["n", "mean"]
    assert catalog.pipeline("good").columns["delay"].source == "arr_delay"


NOW = "Input should be"
PROBLEMS = {
    "not YAML": ("a: [1\nb: 2\n", [
        "bad.yaml:2  yaml  expected ',' or ']', but got ':'. Mend the YAML"]),
    "a tab": (GOOD.replace("  site", "\tsite"), [
        "bad.yaml:3  yaml  found character '\\t' that cannot start any token. Mend the YAML"]),
    "empty": ("", ["bad.yaml:1  file  is empty or not a mapping. See the docs"]),
    "a list": ("- a\n", ["bad.yaml:1  file  is empty or not a mapping. See the docs"]),
    "two documents": ("a: 1\n---\nb: 2\n", [
        "bad.yaml:2  yaml  but found another document. Mend the YAML"]),
    "an unknown key": (GOOD.replace("keys:", "kays:"), [
        "bad.yaml:8  steps.per_site.kays  unknown key. Did you mean keys?"]),
    "an unknown key far from any": (GOOD + "zzzzzz: 1\n", [
        "bad.yaml:14  zzzzzz  unknown key. Known: description, source, history, columns,"
        " event_time, arrival_time, zone, skew, not_before, id, steps, correction, audit"]),
    "a missing key": (GOOD.replace("event_time: t\n", ""), [
        "bad.yaml:1  event_time  is missing. Add event_time: Source column of the event time."]),
    "a missing slack": (GOOD.replace("    slack: {fixed: PT5M}\n", ""), [
        "bad.yaml:7  steps.per_site.slack  is missing."
        " Add slack: How long to wait for late records."]),
    "a doubled key": (GOOD + "event_time: u\n", [
        "bad.yaml:14  event_time  stands twice. Delete one"]),
    "a doubled step": (GOOD.replace("event_time: t\n", "").replace(
        "steps:\n", "event_time: t\nsteps:\n  per_site: {}\n"), [
        "bad.yaml:8  steps.per_site  stands twice. Delete one"]),
    "an unknown column": (GOOD.replace("avg(delay)", "avg(delays)"), [
        "bad.yaml:12  steps.per_site.measures.mean  column delays is not declared:"
        " add it under columns (declared: delay, site)"]),
    "an unknown key column": (GOOD.replace("[site]", "[sight]"), [
        "bad.yaml:8  steps.per_site.keys  sight is not declared under columns"
        " (declared: delay, site)"]),
    "a double as a key": (GOOD.replace("[site]", "[delay]"), [
        "bad.yaml:8  steps.per_site.keys  delay is a double, which does not compare safely."
        " Use string or long"]),
    "a measure named as a key": (GOOD.replace("n: count", "site: count"), [
        "bad.yaml:8  steps.per_site.keys  site is also the name of an answer's column."
        " Rename one"]),
    "a measure with a name of the answers": (GOOD.replace("n: count", "n_records: count"), [
        "bad.yaml:10  steps.per_site.measures  measure n_records: the answers use this name."
        " Choose another one"]),
    "a reserved column": (GOOD.replace("site: string", "block: string").replace("[site]", "[]"), [
        "bad.yaml:2  columns  column block: the tables use this name themselves. Declare it"
        " under another one: my_block: {type: ..., from: block}"]),
    "columns that differ in case": (GOOD.replace("columns:\n", "columns:\n  Site: string\n"), [
        "bad.yaml:2  columns  columns Site and site differ only in case"]),
    "a gap between windows": (GOOD.replace("PT1H}", "PT1H, slide: PT2H}"), [
        "bad.yaml:9  steps.per_site.window  slide 2:00:00 is longer than size 1:00:00: records in"
        " between would belong to no window. Lower slide to at most 1:00:00."]),
    "half a landmark": (GOOD.replace("{size: PT1H}", "{period: PT1H}"), [
        "bad.yaml:9  steps.per_site.window  a landmark window needs both since and period"]),
    "two slacks": (GOOD.replace("{fixed: PT5M}", "{fixed: PT5M, max_delay: {bound: PT1H}}"), [
        "bad.yaml:13  steps.per_site.slack  name one policy: {fixed: PT5M},"
        " {max_delay: {bound: PT12H}}, {quantile: {}} or {pd: {}}"]),
    "a steered slack without a target": (GOOD.replace("{fixed: PT5M}", "{quantile: {}}"), [
        "bad.yaml:7  steps.per_site  slack pd and quantile need a quality target: quality:"
        " {epsilon: 0.05, delta: 0.05}"]),
    "a target without a steered slack": (
        GOOD + "    quality: {epsilon: 0.05, delta: 0.05}\n", [
        "bad.yaml:7  steps.per_site  quality has no effect with this slack. Use slack:"
        " {quantile: {}} or delete quality"]),
    "an epsilon of all": (GOOD.replace("{fixed: PT5M}", "{quantile: {}}") +
        "    quality: {epsilon: 1, delta: 0.05}\n", [
        "bad.yaml:14  steps.per_site.quality  epsilon 1 is no relative error to stay below: choose"
        " one between 0 and 1, as in 0.05. For answers without any error use slack: max_delay."]),
    "a delta of nothing": (GOOD.replace("{fixed: PT5M}", "{pd: {}}") +
        "    quality: {epsilon: 0.05, delta: 0}\n", [
        "bad.yaml:14  steps.per_site.quality  delta 0 is no share of answers that may be further"
        " off: choose one between 0 and 1, as in 0.05. No buffer can promise 0; the correction"
        " makes every answer exact."]),
    "targets of measures that have none": (GOOD.replace("{fixed: PT5M}", "{pd: {}}").replace(
        "mean: avg(delay)", "mean: avg(delay)\n      worst: max(delay)") +
        "    quality:\n      epsilon: 0.05\n      delta: 0.05\n      measures:\n"
        "        worst: {epsilon: 0.1}\n        total: {delta: 0.1}\n        n: {delta: 0.1}\n", [
        "bad.yaml:19  steps.per_site.quality.measures.worst  max has no bound: one late record may"
        " be it. Delete this target, or name a quantile",
        "bad.yaml:20  steps.per_site.quality.measures.total  no measure has this name (measures:"
        " n, mean, worst)"]),
    "a measure's epsilon of all": (GOOD.replace("{fixed: PT5M}", "{pd: {}}") +
        "    quality: {epsilon: 0.05, delta: 0.05, measures: {mean: {epsilon: 2}}}\n", [
        "bad.yaml:14  steps.per_site.quality  epsilon 2 is no relative error to stay below: choose"
        " one between 0 and 1, as in 0.05. For answers without any error use slack: max_delay."]),
    "a measure's target for totals": (GOOD.replace("{fixed: PT5M}", "{pd: {}}") +
        "    quality: {epsilon: 0.05, delta: 0.05, of: total, measures: {n: {epsilon: 0.1}}}\n", [
        "bad.yaml:14  steps.per_site.quality  measures and least are about answers, but of: total"
        " binds a window's total. Delete them or of"]),
    "totals of an average": (GOOD.replace("{fixed: PT5M}", "{pd: {}}").replace(
        "      n: count(*)\n", "") + "    quality: {epsilon: 0.05, delta: 0.05, of: total}\n", [
        "bad.yaml:7  steps.per_site  of: total binds the window's total of a count or sum, and"
        " there is none. Add count(*), or delete of"]),
    "a delta too small for any quantile": (GOOD.replace("{fixed: PT5M}", "{pd: {}}") +
        "    quality: {epsilon: 0.05, delta: 1.0e-17}\n", [
        "bad.yaml:14  steps.per_site.quality  delta 1e-17 is no share of answers that may be"
        " further off: choose one between 0 and 1, as in 0.05. No buffer can promise 0; the"
        " correction makes every answer exact."]),
    "a cv without end": (GOOD.replace("{fixed: PT5M}", "{pd: {}}") +
        "    quality: {epsilon: 0.05, delta: 0.05, cv: .inf}\n", [
        "bad.yaml:14  steps.per_site.quality.cv  Input should be a finite number"]),
    "measures that differ in case": (GOOD.replace("mean: avg", "N: avg"), [
        "bad.yaml:10  steps.per_site.measures  measures n and N differ only in case. Rename one"]),
    "a key and a measure that differ in case": (GOOD.replace("mean: avg", "Site: avg"), [
        "bad.yaml:8  steps.per_site.keys  site is also the name of an answer's column. Rename"
        " one"]),
    "another count for a landmark's average": (GOOD.replace(
        "{size: PT1H}", "{since: 2024-01-01T00:00:00Z, period: PT1H}").replace(
        "n: count(*)", "mean_count: sum(delay)"), [
        "bad.yaml:12  steps.per_site.measures.mean  'avg(delay)' needs a count of its values to be"
        " merged, and mean_count is the name of it. Rename that measure"]),
    "a source in two places": (GOOD.replace("files: in", "files: in, delta: x"), [
        "bad.yaml:1  source  name one place: files (a folder) or delta (a table)"]),
    "a wrong cron": (GOOD + "audit: {cron: hourly}\n", [
        "bad.yaml:14  audit.cron  'hourly' is not a cron line of five fields,"
        " as in '*/15 * * * *'"]),
    "a wrong zone": (GOOD + "zone: Mars/Base\n", [
        "bad.yaml:14  zone  'Mars/Base' is not a time zone, as in Europe/Vienna"]),
    "an id that is not declared": (GOOD + "id: {column: uid}\n", [
        "bad.yaml:1  file  id.column uid is not declared under columns"]),
    "a step's name": (GOOD.replace("per_site:", "Per-Site:"), [
        "bad.yaml:7  steps.Per-Site  String should match pattern '^[a-z][a-z0-9_]{0,47}$'."
        " Use small letters, digits and _, a letter first"]),
    "several at once, in the order of their lines": (
        GOOD.replace("keys:", "kays:").replace("event_time: t", "event_tim: t") + "zone: x\n", [
        "bad.yaml:1  event_time  is missing. Add event_time: Source column of the event time.",
        "bad.yaml:5  event_tim  unknown key. Did you mean event_time?",
        "bad.yaml:8  steps.per_site.kays  unknown key. Did you mean keys?",
        "bad.yaml:14  zone  'x' is not a time zone, as in Europe/Vienna"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_message_says_where_what_and_the_remedy(tmp_path: Path, name: str) -> None:
    text, wanted = PROBLEMS[name]
    assert said(tmp_path, text) == wanted


def test_a_name_that_cannot_be_a_pipeline(tmp_path: Path) -> None:
    found = said(tmp_path, GOOD, "My Pipe.yaml")
    assert len(found) == 1
    assert "My Pipe.yaml:1  name  String should match pattern" in found[0]


def test_an_unknown_pipeline_is_asked_back_and_a_changed_file_is_noticed(tmp_path: Path) -> None:
    catalog = read(tmp_path, "nonsense")
    with pytest.raises(UnknownPipelineError, match=r"called goood\. Did you mean good"):
        catalog.pipeline("goood")
    digest = catalog.pipeline("good").digest
    assert catalog.pipeline("good", digest).name == "good"
    with pytest.raises(ConfigDriftError, match=r"scheduled with file 000, started with.*Clear the"):
        catalog.pipeline("good", "000")


def test_the_digest_names_what_the_file_means(tmp_path: Path) -> None:
    same = read(tmp_path, "# a comment\n" + GOOD.replace("PT1H", "PT60M"), "good.yaml")
    assert same.pipeline("good").digest == read(tmp_path, GOOD, "x.yaml").pipeline("good").digest
    (tmp_path / "good.yaml").write_text(GOOD.replace("PT1H", "PT2H"))
    assert Catalog.read(tmp_path).pipeline("good").digest != same.pipeline("good").digest


HOSTILE = {
    "an instant that does not exist": GOOD + "not_before: 2013-13-01T00:00:00Z\n",
    "a list as a key": GOOD + "? [a, b]\n: c\n",
    "an anchor that holds itself": GOOD + "foo: &a {b: *a}\n",
    "very deep nesting": GOOD + "foo: " + "[" * 3_000 + "]" * 3_000 + "\n",
    "not UTF-8": None,
    "a name inside the file": GOOD + "name: other\n",
    "a path inside the file": GOOD + "path: /etc\n",
    "a key named twice in a step": GOOD.replace("[site]", "[site, site]"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_a_problem_and_never_stops_the_others(tmp_path: Path, name: str) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    text = HOSTILE[name]
    found = said(tmp_path, text) if text is not None else said_of(tmp_path)
    assert len(found) >= 1


def said_of(folder: Path) -> list[str]:
    (folder / "good.yaml").write_text(GOOD)
    catalog = Catalog.read(folder)
    assert [p.name for p in catalog.pipelines] == ["good"]
    return [str(e) for e in catalog.errors]


def test_two_files_of_one_name_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "a.yml").write_text(GOOD)
    catalog = Catalog.read(tmp_path)
    assert [p.name for p in catalog.pipelines] in ([], ["a"])
    assert catalog.errors
