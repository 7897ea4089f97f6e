"""A join in a pipeline file: what it means, what is wrong with it, and what explain says."""

from pathlib import Path

import pytest

from penstock.config.catalog import read_pipeline
from penstock.kinds.join.spec import JoinSpec, Shift, span_of

FILE = """\
source: {files: live, format: jsonl}
columns: {station: string, pm: double, off: long}
event_time: t
steps:
  change:
    kind: join
    on: [station]
    shift: P1M
    within: PT0S
    queries:
      strong: abs(left.pm - right.pm) > 200
      weak: 50 < abs(left.pm - right.pm)
    select: [left.pm, right.pm]
    slack: {fixed: P2D}
"""


def read(home: Path, text: str) -> tuple[JoinSpec | None, list[str]]:
    path = home / "p.yaml"
    path.write_text(text)
    pipeline, problems = read_pipeline(path)
    said = [str(problem).replace(f"{home}/", "") for problem in problems]
    if pipeline is None:
        return None, said
    spec = pipeline.spec("change")
    assert isinstance(spec, JoinSpec)
    return spec, [pipeline.steps["change"].found_by(pipeline.given_to(pipeline.steps["change"]))]


def test_on_is_a_name_whatever_yaml_takes_it_for(tmp_path: Path) -> None:
    step, _ = read(tmp_path, FILE)
    assert step is not None
    assert step.key_names == ("station",)
    assert (step.shift, step.before, step.after) == (Shift(1), 0, 0)
    assert step.window.size == 1_000_000
    assert [c.name for c in step.values] == [
        "left_time", "right_time", "left_pm", "right_pm", "queries",
    ]  # fmt: skip
    assert step.required == ()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("P1M", "1 month", ["p.yaml:8  steps.change.shift  '1 month' is not a span of time, as in"
                            " P1M (a month), P7D or PT90S"]),
        ("PT0S", "-PT1S", ["p.yaml:9  steps.change.within  a span of time is not negative. Write"
                           " how far apart they may lie"]),
        ("[station]", "[town]", ["p.yaml:7  steps.change.on  town is not declared under columns"
                                 " (declared: off, pm, station)"]),
        ("[left.pm, right.pm]", "[pm, left.x]", [
            "p.yaml:13  steps.change.select  pm is neither left.x nor right.x",
            "p.yaml:13  steps.change.select  x is not declared under columns (declared: off, pm,"
            " station)"]),
        ("[left.pm, right.pm]", "[left.off]", [
            *(f"p.yaml:{line}  steps.change.queries.{name}  {side}.pm is not kept. Add it to select"
              for line, name in ((11, "strong"), (12, "weak")) for side in ("left", "right"))]),
        ("left.pm - right.pm) > 200", "left.pm - right.station) > 200", [
            "p.yaml:11  steps.change.queries.strong  'left.pm - right.station' needs numbers,"
            " found number and string"]),
        ("P1M", "P9999999Y", ["p.yaml:8  steps.change.shift  P9999999Y is more than 36,525 days."
                              " Write less"]),
        ("PT0S", "{after: P99999D}", [
            "p.yaml:9  steps.change.within  records lie at most 36,525 days apart. Write less"]),
        ("PT0S", "a minute", ["p.yaml:9  steps.change.within  'a minute' is not a duration."
                              " Write it as in PT15M, PT1H30M or P7D"]),
        ("PT0S", "{before: 1m, afer: PT1S}", [
            "p.yaml:9  steps.change.within.before  '1m' is not a duration. Write PT1M",
            "p.yaml:9  steps.change.within.afer  unknown key. Did you mean after?"]),
        ("[station]", "station", ["p.yaml:7  steps.change.on  should be a list. Write it as in"
                                  " [station]"]),
        ("on: ", "keys: ", ["p.yaml:5  steps.change  the columns that must be equal stand at on."
                            " Rename keys"]),
        ("strong: ", "timely: ", ["p.yaml:10  steps.change.queries  query timely: every step has a"
                                  " view of this name. Rename it"]),
        ("{fixed: P2D}", "{quantile: {}}\n    quality: {epsilon: 0.1, delta: 0.1, least: 9}", [
            "p.yaml:15  steps.change.quality  a join is bound by how many of its pairs are missing"
            " at first. Write epsilon and delta, and delete the rest"]),
    ],
)  # fmt: skip
def test_the_message_says_where_what_and_the_remedy(
    tmp_path: Path, old: str, new: str, said: list[str]
) -> None:
    assert old in FILE
    assert sorted(read(tmp_path, FILE.replace(old, new.replace("\\n", "\n")))[1]) == sorted(said)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (None, "station, by hash; time, by order; right.pm 50 or more below or 50 or more above"
               " left.pm, by order"),
        ("left.off = right.off", "station, by hash; time, by order; left.off = right.off, by hash;"
                                 " right.pm 50 or more below or 50 or more above left.pm,"
                                 " by order"),
    ],
)  # fmt: skip
def test_what_partners_are_found_by(tmp_path: Path, where: str | None, said: str) -> None:
    text = FILE if where is None else FILE + f"    where: {where}\n"
    assert read(tmp_path, text)[1] == [said]


def test_an_edit_of_queries_starts_nothing_again_and_other_edits_do(tmp_path: Path) -> None:
    digests = []
    for text in (FILE, FILE.replace("> 200", "> 300"), FILE.replace("P1M", "P2M"),
                 FILE[: FILE.index("    queries")] + FILE[FILE.index("    select") :]):  # fmt: skip
        (tmp_path / "p.yaml").write_text(text)
        pipeline, problems = read_pipeline(tmp_path / "p.yaml")
        assert pipeline is not None, problems
        digests.append(pipeline.digest)
    assert digests[0] == digests[1]
    assert len({*digests}) == 3


@pytest.mark.parametrize(
    ("within", "shift", "said"),
    [
        ("PT0S", "PT0S", "each record with those with the same station, at the same time; a pair of"
                         " strong, weak"),
        ("PT0S", "P1M", "each record with those with the same station, P1M earlier; a pair of"
                        " strong, weak"),
        ("PT1M", "P1M", "each record with those with the same station, P1M earlier, and up to"
                        " 0:01:00 before or after that; a pair of strong, weak"),
        ("{after: PT5S}", "PT0S", "each record with those with the same station, up to 0:00:05"
                                  " after it; a pair of strong, weak"),
    ],
)  # fmt: skip
def test_what_is_compared_is_said(tmp_path: Path, within: str, shift: str, said: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(FILE.replace("PT0S", within).replace("P1M", shift))
    pipeline, problems = read_pipeline(path)
    assert pipeline is not None, problems
    assert pipeline.steps["change"].compares == said


def test_the_watermark_counts_by_spans_that_fit_the_reach() -> None:
    found = [span_of(seconds * 1_000_000) for seconds in (0, 1, 10, 60, 3_600, 10**9)]
    assert found == [10**6, 10_000, 100_000, 10**6, 6 * 10**7, 6 * 10**8]
    assert span_of(1) == 1_000
    found = [
        span_of(seconds * 1_000_000, targeted=True) for seconds in (0, 1, 10, 70, 10**4, 10**9)
    ]
    assert found == [1_000_000, 1_000_000, 10_000_000, 60_000_000, 3_600_000_000, 86_400_000_000]
