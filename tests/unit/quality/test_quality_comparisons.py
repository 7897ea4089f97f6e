"""The shape of the comparisons and the reading of their examples."""

from collections.abc import Callable

import pandas as pd
import pytest

from penstock.quality.comparisons import ComparisonsError, checked, examples_of

Make = Callable[..., pd.DataFrame]


def test_a_null_count_is_refused_because_column_checks_would_skip_it(comparisons: Make) -> None:
    with pytest.raises(ComparisonsError, match="wrong_answers that is not a whole number"):
        checked(comparisons(wrong_answers=None), pipeline="flights")


def test_a_fraction_is_refused(comparisons: Make) -> None:
    with pytest.raises(ComparisonsError, match="received that is not a whole number"):
        checked(comparisons(received=0.5), pipeline="flights")


def test_absent_columns_are_all_named(comparisons: Make) -> None:
    frame = comparisons().drop(columns=["pairs_open", "examples"])
    with pytest.raises(ComparisonsError, match=r"flights: .* lack pairs_open, examples"):
        checked(frame, pipeline="flights")


def test_the_balance_and_the_share_are_added_also_when_nothing_was_received(
    comparisons: Make,
) -> None:
    frame = checked(comparisons(received=0, accepted=0, quarantined=0), pipeline="flights")
    assert frame["records_unbalanced"].tolist() == [0, 0]
    assert frame["quarantined_share"].tolist() == [0.0, 0.01]


def test_big_positions_stay_exact(comparisons: Make) -> None:
    frame = checked(comparisons(through_seq=2**62 + 1), pipeline="flights")
    assert frame["through_seq"][0] == 2**62 + 1


@pytest.mark.parametrize(("text", "shown"), [
    (None, []),
    ("", []),
    ("[]", []),
    (
        '[{"window_start": "2013-10-01T00:00:00Z", "key": {"site": "JFK", "runway": null},'
        ' "what": "missing", "expected": 3, "found": null}]',
        ["s window 2013-10-01T00:00:00Z key site=JFK, runway=null: missing, expected 3,"
         " found nothing"],
    ),
    (
        '[{"window_start": "x", "key": ["JFK", 4], "what": "wrong mean_delay",'
        ' "expected": {"mean_delay": 1.5}, "found": {"mean_delay": 2}}]',
        ["s window x key JFK, 4: wrong mean_delay, expected mean_delay=1.5, found mean_delay=2"],
    ),
    (
        '[{"key": {"block": 7}, "what": "block lost", "expected": 3, "found": 4}]',
        ["s block=7: block lost, expected 3, found 4"],
    ),
    ("{not json", ["s window ?: unreadable example, expected ?, found {not json"]),
    ("[7]", ["s window ?: unreadable example, expected ?, found 7"]),
])  # fmt: skip
def test_examples_name_window_and_key(text: str | None, shown: list[str]) -> None:
    assert [str(example) for example in examples_of("s", text)] == shown


@pytest.mark.parametrize(("what", "column"), [
    ("wrong", "wrong_answers"),
    ("Missing answer", "missing_answers"),
    ("late record without answer", "late_without_answer"),
    ("lost number", "numbers_missing"),
    ("repeated number", "numbers_doubled"),
    ("block unlike its records", "blocks_wrong"),
    ("unreadable file", "files_unreadable"),
    ("changed file", "files_changed"),
    ("waiting plan", "plans_overdue"),
    ("waiting source", "plans_overdue"),
    ("behind the log", "blocks_overdue"),
    ("micro-batch unlike the log", "batches_wrong"),
    ("generation starts unlike the log", "generations_wrong"),
    ("correction done without its answers", "corrections_wrong"),
    ("forged answer", "forged_answers"),
    ("merged answer", "merged_wrong"),
    ("miscounted timely answer", "timely_miscounted"),
    ("miscounted late rows", "late_miscounted"),
    ("odd", None),
])  # fmt: skip
def test_an_example_belongs_to_the_column_that_counts_it(what: str, column: str | None) -> None:
    (example,) = examples_of("s", f'[{{"what": "{what}"}}]')
    assert example.column == column
