import io
from dataclasses import replace

import pytest
from rich.console import Console

from penstock.core.coverage import QualityTarget
from penstock.core.limit import upper_limit
from penstock.core.slack import SlackPolicy
from penstock.core.window import BEGINNING
from penstock.lake.proof.worth import Rate, Spread, Worth
from penstock.runtime.demo import closing
from penstock.runtime.demo.airflow import latest
from penstock.runtime.demo.product import Account, said_of
from penstock.runtime.demo.truth import Example, Verdict
from penstock.runtime.terminal.progress import Look, stage

VERDICT = Verdict(
    step="per_site",
    windows=10,
    pairs=40,
    preloaded=5,
    timely=4,
    unanswered=1,
    changed=2,
    wrong=0,
    examples=(
        Example("10-01 10:00-11:00", "JFK", {"n": (1, 2, 2), "mean": (None, -6.25, -6.25)}, True),
    ),
)


@pytest.fixture(params=[True, False], ids=["terminal", "plain"])
def console(request: pytest.FixtureRequest) -> Console:
    return Console(file=io.StringIO(), force_terminal=request.param, width=80, no_color=True)


def shown(console: Console) -> str:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_stage_ends_with_its_last_words(console: Console) -> None:
    with stage(console, "Preload [of] the history") as show:
        show(Look("1 of 3", 1, 3))
        show(Look("3 of 3 [done]", 3, 3), last=True)

    last = shown(console).strip().splitlines()[-1]
    assert "✓ Preload [of] the history: 3 of 3 [done]" in last


def test_a_stage_that_fails_says_so_and_lets_the_error_through(console: Console) -> None:
    with pytest.raises(ValueError, match="broken"), stage(console, "Preload"):
        raise ValueError("broken")

    assert "✗ Preload" in shown(console)


def test_an_example_has_its_three_answers_on_one_line_for_each_measure() -> None:
    console = Console(file=io.StringIO(), width=80)

    closing.show_examples(VERDICT, console)

    lines = [line.split() for line in shown(console).splitlines()]
    assert ["10-01", "10:00-11:00", "JFK", "n", "1", "2", "2", "repaired"] in lines
    assert ["mean", "-", "-6.2", "-6.2"] in lines


def test_the_verdict_tells_what_late_records_had_changed_and_what_is_wrong_now() -> None:
    console = Console(file=io.StringIO(), width=80)

    closing.show_verdicts([VERDICT, VERDICT], console)

    text = " ".join(shown(console).split())
    assert "per_site 10 5 4 1 2 0" in text
    assert "had made 4 answers wrong" in text
    assert "Wrong now: 0" in text


def test_the_second_table_says_what_a_slack_cost_and_whether_its_target_was_kept() -> None:
    hour, target = 3_600_000_000, QualityTarget(0.05, 0.05)
    wait, rates = Spread(1.5 * hour, 2 * hour), (Rate("per_site", target, 1_000, 30, 0.0375),)
    steered = Worth(
        SlackPolicy.QUANTILE, True, "answers", True, BEGINNING, 500, 1.0 * hour, wait, None, rates
    )
    young = replace(steered, known=False, rates=(replace(rates[0], of=0, off=0, expected=None),))
    fixed = replace(
        steered,
        policy=SlackPolicy.FIXED,
        targeted=False,
        wait=None,
        slack=None,
        rates=(replace(rates[0], off=90),),
    )
    latest = replace(fixed, rates=())
    every = {"per_site": steered, "young": young, "per_plate": fixed, "last_seen": latest}
    console = Console(file=io.StringIO(), width=140)

    closing.show_worths(every, console)

    lines = [line.split() for line in shown(console).splitlines()]
    limit = f"{rates[0].upper:.2%}"
    assert ["per_site", "quantile", "1", "h", "0.05,", "0.05", "1,000", "30", "3.00%", limit,
            "kept"] in lines  # fmt: skip
    assert [line[-7:] for line in lines if line[:1] == ["young"]] == [
        ["0", "0", "-", "-", "not", "known", "yet"]
    ]
    assert ["per_plate", "fixed", "-", "-", "1,000", "90", "9.00%",
            f"{upper_limit(90, 1_000):.2%}", "no", "target"] in lines  # fmt: skip
    assert not [line for line in lines if line[:1] == ["last_seen"]]
    missed = replace(steered, rates=(replace(rates[0], off=90),))
    closing.show_worths({"per_site": missed}, console)
    assert "missed" in shown(console)


def test_the_conservation_law_is_shown_with_its_numbers_and_where_it_fails() -> None:
    good = Account(
        "a",
        "(record, window) pairs",
        7,
        {"accepted": 6, "quarantined": 1},
        12,
        {"on time": 9, "late": 3},
    )
    bad = Account(
        "b", "records compared", 7, {"accepted": 6, "quarantined": 1}, 12, {"on time": 9, "late": 2}
    )
    console = Console(file=io.StringIO(), width=200)

    closing.show_accounts([good, bad], 8, console)

    text = shown(console)
    assert (good.balanced, bad.balanced) == (True, False)
    assert "8 in the raw files IS NOT 7 received = 6 accepted + 1 quarantined" in text
    assert "a, (record, window) pairs:  12 = 9 on time + 3 late" in text
    assert "b, records compared:  12 IS NOT 9 on time + 2 late" in text


RUNS = [
    {"dag_run_id": "a", "run_type": "manual", "state": "success", "queued_at": "2026-01-01T10:00Z"},
    {"dag_run_id": "b", "run_type": "manual", "state": "running", "queued_at": "2026-01-01T10:05Z"},
    {
        "dag_run_id": "c",
        "run_type": "backfill",
        "state": "queued",
        "queued_at": "2026-01-01T11:00Z",
    },
]


@pytest.mark.parametrize(
    ("runs", "since", "found"),
    [
        (RUNS, "", "b"),  # it goes on
        (RUNS[:1], "", None),  # over: its work may not have been all
        (RUNS, "2026-01-01T10:05Z", "b"),
        (RUNS, "2026-01-01T10:06Z", None),  # asked for before there was anything to do for it
        (RUNS[:1], "2026-01-01T09:00Z", "a"),  # over already, but it began late enough
        (RUNS[2:], "", None),
        ([], "", None),
    ],
)
def test_a_run_that_is_there_is_taken_only_if_it_does_as_well_as_a_new_one(
    runs: list[dict[str, str]], since: str, found: str | None
) -> None:
    run = latest(runs, since)

    assert (run and run["dag_run_id"]) == found


@pytest.mark.parametrize(
    ("job", "outcome", "said"),
    [
        ("preload", {"received": 1000, "answers": 20}, "1,000 records taken in, 20 answers"),
        ("preload", {"received": 0, "answers": 0}, "nothing was left to do: 0 records"),
        ("correct", {"answers": 5, "changed": 4}, "5 answers computed again, 4 of them changed"),
        ("correct", {"answers": 0, "changed": 0}, "nothing was left to do"),
        ("audit", {"audited": 2, "failed": []}, "2 steps, nothing amiss"),
    ],
)
def test_an_outcome_is_told_in_words(job: str, outcome: dict[str, object], said: str) -> None:
    assert said_of(job, outcome).startswith(said)
