"""A wrong pipeline file: every problem with file, line, place and remedy; the others go on."""

from pathlib import Path

import pytest

from penstock.config.catalog import Catalog, ConfigDriftError, UnknownPipelineError
from penstock.config.intake import Definition

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
JOIN = """\
  near:
    kind: join
    within: PT30M
    shift: P1D
    where: left.delay > right.delay
    slack: {fixed: PT5M}
"""
LOOKUP = """\
  seen:
    kind: lookup
    keys: [site]
    keep: {last: 2}
    pairs: consecutive
    columns: [delay]
    alarm: new.delay > old.delay
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
EMPTY = "bad.yaml:1  file  is empty or not a mapping. See docs/reference/pipeline-file.md"
PROBLEMS = {
    "not YAML": ("a: [1\nb: 2\n", [
        "bad.yaml:2  yaml  expected ',' or ']', but got ':'. Mend the YAML"]),
    "a tab": (GOOD.replace("  site", "\tsite"), [
        "bad.yaml:3  yaml  found character '\\t' that cannot start any token. Mend the YAML"]),
    "empty": ("", [EMPTY]),
    "a list": ("- a\n", [EMPTY]),
    "two documents": ("a: 1\n---\nb: 2\n", [
        "bad.yaml:2  yaml  but found another document. Mend the YAML"]),
    "an unknown key": (GOOD.replace("keys:", "kays:"), [
        "bad.yaml:8  steps.per_site.kays  unknown key. Did you mean keys?"]),
    "an unknown key far from any": (GOOD + "zzzzzz: 1\n", [
        "bad.yaml:14  zzzzzz  unknown key. Known: description, source, history, columns,"
        " event_time, arrival_time, zone, ambiguous, formats, skew, not_before, id,"
        " snapshots, load, steps, micro_batch, correction, audit, keep"]),
    "less kept than a window and its slack": (GOOD + "keep: PT5M\n", [
        "bad.yaml:14  keep  records of open windows would go: the window and slack of per_site are"
        " longer. Keep at least PT1H5M"]),
    "less kept than a join reaches": (f"{GOOD}{JOIN}keep: PT25H\n", [
        "bad.yaml:20  keep  records of open windows would go: the reach and slack of near are"
        " longer. Keep at least P1DT1H6M"]),
    "less kept than a look-up may ask": (f"{GOOD}{LOOKUP}keep: P9D\n", [
        "bad.yaml:21  keep  seen may compare a late record with any other of its key, however old."
        " Delete keep, or give the step a pipeline of its own"]),
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
        " did you mean delay? (declared: delay, site)"]),
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
    "an archive without a folder": (GOOD.replace("jsonl}", "jsonl, after: archive}"), [
        "bad.yaml:1  source  after: archive needs a folder: archive: FOLDER, outside the source"]),
    "an archive for nothing": (GOOD.replace("jsonl}", "jsonl, archive: done}"), [
        "bad.yaml:1  source  archive has no effect without after: archive. Add that, or delete"
        " it"]),
    "an archive elsewhere": (
        GOOD.replace("jsonl}", "jsonl, after: archive, archive: 's3://done'}"), [
        "bad.yaml:1  source.archive  s3:// cannot be read yet. Name a folder of this machine:"
        " mount or copy it"]),
    "an unknown after": (GOOD.replace("jsonl}", "jsonl, after: deleted}"), [
        "bad.yaml:1  source.after  Input should be 'keep', 'delete' or 'archive'. Did you mean"
        " delete?"]),
    "a table whose files are to go": (
        GOOD.replace("{files: in, format: jsonl}", "{delta: in, after: delete}"), [
        "bad.yaml:1  source  after: delete: the files of a Delta table are the table's. Delete"
        " after, and vacuum the table instead"]),
    "a history whose files are to go": (
        GOOD + "history:\n  files: old\n  after: archive\n  archive: done\n", [
        "bad.yaml:14  history  after and archive: files of a history stay, since it may be"
        " preloaded by intervals. Name it at source, or delete it"]),
    "two slacks": (GOOD.replace("{fixed: PT5M}", "{fixed: PT5M, max_delay: {bound: PT1H}}"), [
        "bad.yaml:13  steps.per_site.slack  name one policy: {fixed: PT5M},"
        " {max_delay: {bound: PT12H}}, {quantile: {}}, {pd_final: {}} or {pd: {}}"]),
    "a steered slack without a target": (GOOD.replace("{fixed: PT5M}", "{quantile: {}}"), [
        "bad.yaml:7  steps.per_site  slack pd, pd_final and quantile need a quality target:"
        " quality: {epsilon: 0.05, delta: 0.05}"]),
    "gains that are its own": (
        GOOD.replace("{fixed: PT5M}", "{pd_final: {kp: 0.1}}"), [
        "bad.yaml:13  steps.per_site.slack.pd_final.kp  unknown key. Known: measure_after,"
        " recent"]),
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
    "a form without a day": (GOOD + "formats: {t: '%Y %H'}\n", [
        "bad.yaml:14  formats.t  '%Y %H' is not how instants are written: s, ms or us since 1970,"
        " or a form with its year, month and day as in '%d.%m.%Y %H:%M:%S' or"
        " '%d/%b/%Y:%H:%M:%S %z' (known are %Y %y %m %b %B %d %j %H %I %p %M %S %f %z %a %A %%)"]),
    "a form of no instant": (GOOD + "formats: {t: ms, site: s}\n", [
        "bad.yaml:1  file  formats: site is no source column of an instant: event_time,"
        " arrival_time, or a column of type timestamp (by its name in the source)"]),
    "an id that is not declared": (GOOD + "id: {column: uid}\n", [
        "bad.yaml:1  file  id.column uid is not declared under columns"]),
    "a step's name": (GOOD.replace("per_site:", "Per-Site:"), [
        "bad.yaml:7  steps.Per-Site  String should match pattern '^[a-z][a-z0-9_]{0,47}$'."
        " Use small letters, digits and _, a letter first"]),
    "a duration in everyday words": (GOOD.replace("PT5M", "15m"), [
        "bad.yaml:13  steps.per_site.slack.fixed  '15m' is not a duration. Write PT15M"]),
    "a duration that means nothing": (GOOD.replace("PT5M", "soon"), [
        "bad.yaml:13  steps.per_site.slack.fixed  'soon' is not a duration. Write it as in PT15M,"
        " PT1H30M or P7D"]),
    "no duration at all": (GOOD.replace("PT5M", "[1]"), [
        "bad.yaml:13  steps.per_site.slack.fixed  '[1]' is not a duration. Write it as in PT15M,"
        " PT1H30M or P7D"]),
    "a version that cannot be": (GOOD.replace(
        "{files: in, format: jsonl}", "\n  delta: in\n  skip: [3, -1]"), [
        "bad.yaml:3  source.skip.1  Input should be greater than or equal to 0"]),
    "a folder of zones": (GOOD + "zone: Europe\n", [
        "bad.yaml:14  zone  'Europe' is not a time zone, as in Europe/Vienna"]),
    "leap seconds": (GOOD + "zone: right/UTC\n", [
        "bad.yaml:14  zone  'right/UTC' is not a time zone, as in Europe/Vienna"]),
    "a zone as long as no file's name": (GOOD + f"zone: {'x' * 300}\n", [
        f"bad.yaml:14  zone  '{'x' * 300}' is not a time zone, as in Europe/Vienna"]),
    "an instant without a zone": (GOOD + "not_before: 2013-10-01 00:00:00\n", [
        "bad.yaml:14  not_before  '2013-10-01 00:00:00' is not an instant with a zone."
        " Write it as in 2013-10-01T00:00:00Z"]),
    "a type as in Python": (GOOD.replace("type: double", "type: int"), [
        f"bad.yaml:4  columns.delay.type  {NOW} 'string', 'long', 'double', 'boolean' or"
        " 'timestamp'. Did you mean long?"]),
    "a type that is a typo": (GOOD.replace("type: double", "type: duoble"), [
        f"bad.yaml:4  columns.delay.type  {NOW} 'string', 'long', 'double', 'boolean' or"
        " 'timestamp'. Did you mean double?"]),
    "a type that nobody knows": (GOOD.replace("type: double", "type: geometry"), [
        f"bad.yaml:4  columns.delay.type  {NOW} 'string', 'long', 'double', 'boolean' or"
        " 'timestamp'"]),
    "a format of another name": (GOOD.replace("format: jsonl", "format: json"), [
        f"bad.yaml:1  source.format  {NOW} 'parquet', 'jsonl' or 'csv'. Did you mean jsonl?"]),
    "a step that is a word": (GOOD + "id: uid\n", [
        "bad.yaml:14  id  should be keys with values, one a line"]),
    "aliases that stand for millions of values": (
        "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 8)), [
        "bad.yaml:5  yaml  stands for more than 20,000 values, its aliases (*) expanded. Mend"
        " the YAML"]),
    "a share of nothing that is shed": (GOOD.replace(
        "slack:", "shed: {base: 0}\n    slack:"), [
        "bad.yaml:13  steps.per_site.shed  base 0 is no share of the records: above 0, up to 1"]),
    "a utilisation that no load is above": (GOOD.replace(
        "slack:", "shed: {from: 1, model: cubic}\n    slack:"), [
        f"bad.yaml:13  steps.per_site.shed.model  {NOW} 'linear' or 'quadratic'"]),
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


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("90s", "PT90S"), ("1h30m", "PT1H30M"), ("2 hours", "PT2H"), ("1d 12h", "P1DT12H"),
        ("2 weeks", "P2W"), ("1 week", "P1W"), ("10 Minutes", "PT10M"), ("0.5h", "PT0.5H"),
    ],
)  # fmt: skip
def test_the_duration_that_was_meant_is_one(tmp_path: Path, given: str, meant: str) -> None:
    (found,) = said(tmp_path, GOOD.replace("PT5M", given))

    assert found.endswith(f"'{given}' is not a duration. Write {meant}")
    assert not read(tmp_path, GOOD.replace("PT5M", meant)).errors


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("integer", "long"), ("bigint", "long"), ("Int64", "long"), ("float", "double"),
        ("decimal(10,2)", "double"), ("str", "string"), ("text", "string"), ("bool", "boolean"),
        ("varchar(20)", "string"), ("datetime", "timestamp"), ("date", "timestamp"),
        ("timestamp with time zone", "timestamp"),
    ],
)  # fmt: skip
def test_the_type_that_was_meant_is_named(tmp_path: Path, given: str, meant: str) -> None:
    (found,) = said(tmp_path, GOOD.replace("type: double", f'type: "{given}"'))

    assert found.endswith(f"Did you mean {meant}?")


def test_an_alias_or_two_is_fine(tmp_path: Path) -> None:
    twice = GOOD.replace("    window: {size", "    window: &w {size")
    twice += (
        GOOD[GOOD.index("  per_site") :].replace("per_site", "again").replace("{size: PT1H}", "*w")
    )

    assert not read(tmp_path, twice).errors


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
    with pytest.raises(ConfigDriftError, match=r"with file 000, started with.*next try takes"):
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


def test_what_becomes_of_files_is_written_down_with_a_plan_only_where_they_do_not_stay(
    tmp_path: Path,
) -> None:
    texts = []
    for more in ("", ", after: keep", ", after: archive, archive: done"):
        catalog = read(tmp_path, GOOD.replace("jsonl}", f"jsonl{more}}}"))
        definition = catalog.pipeline("bad").definition
        texts.append(definition.to_text())
        assert Definition.from_text(texts[-1]) == definition
    assert texts[0] == texts[1]
    assert '"after"' not in texts[0], "as plans of former versions"
    assert '"after":"archive","archive":"done"' in texts[2]
