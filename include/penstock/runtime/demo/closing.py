"""The demo's last words: what came out, whether it is true, and where to look."""

from collections.abc import Mapping

from rich import box
from rich.console import Console
from rich.table import Table

from penstock.control.spoken import spoken
from penstock.lake.proof.worth import Rate, Worth
from penstock.lake.proof.worth_told import verdict
from penstock.runtime.demo.product import Account
from penstock.runtime.demo.truth import Example, Verdict
from penstock.runtime.terminal.words import NOTHING, value

WORTH = (("step", False), ("slack", False), ("mean K", True), ("target", True), ("judged", True),
         ("off", True), ("rate", True), ("limit", True), ("", False))  # fmt: skip
COLUMNS = ("in all", "history", "in time", "only late", "changed", "wrong now")


def show_examples(verdict: Verdict, console: Console) -> None:
    """Some windows of a step: in time, corrected, and what is true."""
    title = f"{verdict.step}: some windows (event time, UTC)"
    table = _table(title)
    for name in ("window", "of", "measure"):
        table.add_column(name, no_wrap=True)
    for side in ("timely", "corrected", "truth"):
        table.add_column(side, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for example in verdict.examples:
        table.add_row(*_cells(example))
    console.print(table)


def show_verdicts(verdicts: list[Verdict], console: Console) -> None:
    """How many answers late records had changed, and how many are wrong now."""
    table = _table("Answers (windows x keys, or alarms); in all = history + in time + only late")
    table.add_column("step", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for v in verdicts:
        colour = "red" if v.wrong else "green"
        counts = (v.windows, v.preloaded, v.timely, v.unanswered, v.changed)
        wrong = f"[{colour}]{v.wrong:,}[/]"
        table.add_row(v.step, *(f"{count:,}" for count in counts), wrong)
    console.print(table)
    console.print(
        f"Late records had made {sum(v.changed for v in verdicts):,} answers wrong, and"
        f" {sum(v.unanswered for v in verdicts):,} windows had no record in time; both were"
        f" corrected. Wrong now: {sum(v.wrong for v in verdicts):,}."
    )


def show_worths(worths: Mapping[str, Worth], console: Console) -> None:
    """Of every step with measures what its slack cost, and how many timely answers were off.

    The wait is left out: the demo takes months of records at once, and its blocks are days long.
    """
    table = _table("Timely answers: slack, and how many were off by epsilon")
    for name, right in WORTH:
        table.add_column(name, justify="right" if right else "left", no_wrap=name == "step")
    for step, one in worths.items():
        for rate in one.rates:
            table.add_row(*_worth_cells(step, one, rate))
    console.print(table)
    console.print(
        "K is event time, from a window's end on. A target is delta, epsilon; without"
        " one a step is looked at with 5 %. The limit is one-sided, 95 %."
    )


def _worth_cells(step: str, one: Worth, rate: Rate) -> tuple[str, ...]:
    said, target = verdict(rate, one), rate.target
    colour = {"kept": "green", "missed": "red"}.get(said)
    return (
        step if ": " not in rate.name else rate.name,
        one.policy.value,
        NOTHING if one.slack is None else spoken(round(one.slack)),
        f"{target.delta:.3g}, {target.epsilon:.3g}" if one.targeted else NOTHING,
        f"{rate.of:,}",
        f"{rate.off:,}",
        *(f"{part:.2%}" if rate.of else NOTHING for part in (rate.share, rate.upper)),
        f"[{colour}]{said}[/]" if colour else said,
    )


def show_accounts(accounts: list[Account], raw: int, console: Console) -> None:
    """The conservation law with its numbers.

    Args:
        accounts: one a step.
        raw: records in the raw files.
        console: where to.
    """
    console.print("Nothing is lost, nothing is there twice:")
    first = accounts[0]
    console.print(
        f"  records   {raw:,} in the raw files"
        + _equals(raw, first.received)
        + f"{first.received:,} received"
        + _equals(first.received, sum(first.parts_of_received.values()))
        + _sum(first.parts_of_received),
        soft_wrap=True,
        highlight=False,
    )
    for account in accounts:
        console.print(
            f"  {account.step}, {account.counted}:  {account.pairs:,}"
            + _equals(account.pairs, sum(account.parts_of_pairs.values()))
            + _sum(account.parts_of_pairs),
            soft_wrap=True,
            highlight=False,
        )


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def _cells(example: Example) -> tuple[str, ...]:
    sides = zip(*example.values.values(), strict=True)
    return (
        example.window,
        example.key,
        "\n".join(example.values),
        *("\n".join(_cell(given) for given in side) for side in sides),
        "repaired" if example.changed else "right at once",
    )


def _cell(given: object) -> str:
    return f"{given:,.1f}" if isinstance(given, float) else value(given)


def _equals(one: int, other: int) -> str:
    return " [green]=[/] " if one == other else " [red]IS NOT[/] "


def _sum(parts: dict[str, int]) -> str:
    return " + ".join(f"{count:,} {name}" for name, count in parts.items())
