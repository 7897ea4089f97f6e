"""What ``penstock explain`` says of one step: its windows, its slack, and what that would do."""

from collections.abc import Sequence
from datetime import timedelta

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from penstock.config.slack import Quality
from penstock.control.explanation import Explanation, StepPlan, WindowPlan
from penstock.control.spoken import spoken
from penstock.core.parallelism import AUTO, UNSAID
from penstock.core.slack import SlackPolicy
from penstock.lake.ingest.sample import SlackEffect
from penstock.lake.proof.worth import Worth
from penstock.lake.proof.worth_told import UNKNOWN, foretold
from penstock.runtime.terminal.words import (
    NOTHING,
    at,
    count,
    head,
    interval,
    pairs,
    put,
    share,
    table,
)

ASSUMPTIONS = (
    "until corrections tell: a record's value says nothing of its lateness, records are late"
    " independently of each other, and a window holds as many as quality says, or more. Coverage"
    " is that of the whole window"
)


def show_step(step: StepPlan, out: Console) -> None:
    """Say what a step answers."""
    head(f"Step {step.name}", out)
    keys = ", ".join(step.keys) or "none: one answer a window"
    values = ", ".join(f"{name} = {text} ({kind})" for name, text, kind in step.values)
    of = [("window", _kind(step.window)), ("for example", _example(step.window))]
    out.print(
        pairs(
            ("answers for", f"each {keys}" if step.keys else keys),
            ("of records", f"where {step.where}" if step.where else "all"),
            *([("compares", step.compares)] if step.compares else of),
            *([("found by", step.found_by)] if step.found_by else []),
            ("answers with", values),
        )
    )


def _kind(plan: WindowPlan) -> str:
    if plan.since is not None:
        return (
            f"landmark: everything since {at(plan.since)}; kept as one part each"
            f" {spoken(plan.size)}, merged when read"
        )
    if plan.kind == "tumbling":
        return f"tumbling: {spoken(plan.size)}, one after the other"
    return (
        f"sliding: {spoken(plan.size)} long, a new one each {spoken(plan.slide)};"
        f" {count(plan.panes, 'pane')} of {spoken(plan.pane)} a window"
    )


def _example(plan: WindowPlan) -> str:
    said = ", ".join(interval(start, end) for start, end in plan.windows)
    more = f" and {plan.more:,} more" if plan.more else ""
    return f"a record of {at(plan.example)} UTC belongs to {said or 'no window'}{more}"


def show_slack(step: StepPlan, plan: Explanation, out: Console) -> None:
    """Say how long it waits, and for what."""
    rows: list[tuple[str, str | Text]] = [("slack", _slack(step))] if step.slack else []
    if step.quality is not None:
        rows.append(("quality", _promise(step.quality, step.window.size)))
    if step.compares:
        late = step.late.format(correction=plan.correction)
        out.print(pairs(("answer", "at once"), *rows, ("late", late), *_shed(step), *_tasks(step)))
        return
    if step.quality is not None:
        rows.append(("assumes", ASSUMPTIONS))
    if step.window.windows and step.slack.policy is SlackPolicy.FIXED:
        start, end = step.window.windows[0]
        due = at(end + timedelta(microseconds=step.slack.span))
        rows.append(("answer", f"{interval(start, end)} once an event time of {due} was seen"))
    else:
        rows.append(("answer", "a window, once the watermark has reached its end"))
    rows.append(
        ("late", f"what comes after the answer is repaired by correction, {plan.correction}")
    )
    out.print(pairs(*rows, *_shed(step), *_tasks(step)))


def _shed(step: StepPlan) -> list[tuple[str, str]]:
    """What it leaves to the correction under load; nothing: it sheds none."""
    if (may := step.shed) is None:
        return []
    begins = timedelta(microseconds=round(may.start * may.within))
    return [
        (
            "sheds",
            f"nothing, as long as answers are less than {spoken(begins)} behind the log; then more"
            f" and more records ({may.model}), at {spoken(timedelta(microseconds=may.within))}"
            f" {may.base:.0%} of them. They are repaired as late ones are",
        )
    ]


def _tasks(step: StepPlan) -> list[tuple[str, str]]:
    """Into how many it is cut; nothing: as many as the stream has."""
    if step.parallelism == UNSAID:
        return []
    as_asked = "as many as the load asks for, one more or less at a time"
    return [("tasks", as_asked if step.parallelism == AUTO else f"{step.parallelism}")]


def _slack(step: StepPlan) -> str:
    """How far the watermark stays behind."""
    span, tuning = spoken(step.slack.span), step.slack.tuning
    if step.slack.policy is SlackPolicy.FIXED:
        return f"fixed {span}: the watermark stays {span} behind the newest event time"
    if tuning is not None:
        return (
            f"{step.slack.policy}: the watermark stays as far behind the newest event time as"
            f" {tuning.threshold:.2%} of the records of a window need, in all but"
            f" {tuning.delta:.2%} of them; each is measured {_measured(tuning.horizon)}"
        )
    return (
        "max_delay: the watermark stays behind the newest event time by the greatest lateness"
        f" so far; a lateness above {span} does not count"
    )


def _measured(horizon: int | None) -> str:
    if horizon is None:
        return "once hardly a record still comes for it"
    return f"{spoken(horizon)} after its end"


def _promise(quality: Quality, size: timedelta) -> str:
    """What a target means, with those of single measures; ``size``: of a window."""
    if quality.of == "pairs":
        return (
            f"before they are corrected, at most {quality.delta:.3g} of the windows of"
            f" {spoken(size)} (event time of left records) may lack {quality.epsilon:.3g} or more"
            " of their pairs"
        )
    subject = quality.counted
    least = f" of {quality.least} records or more" if quality.least > 1 else ""
    said = [
        f"before they are corrected, at most {quality.delta:.3g} of the {subject}{least} may be off"
        f" by {quality.epsilon:.3g} or more, relative to the exact value"
    ]
    for name in quality.measures:
        own = quality.target(name)
        said.append(f"of {name} at most {own.delta:.3g}, by {own.epsilon:.3g} or more")
    return "; ".join(said)


def show_effect(
    step: StepPlan, plan: Explanation, effect: SlackEffect, worth: Worth, out: Console
) -> None:
    """Say what its slack would do to the sampled records, and what it would cost and bring."""
    span = spoken(step.slack.span)
    named = f"fixed {span}"
    if step.slack.tuning is not None:
        named = f"{step.slack.policy} (K comes to {spoken(effect.k)})"
    if step.slack.policy is SlackPolicy.MAX_DELAY:
        named = f"max_delay up to {span} (K comes to {spoken(effect.k)})"
    timely = effect.pairs - effect.late_pairs
    said = Text.assemble(
        f"With {named} about ",
        (share(timely, effect.pairs), "bold green"),
        f" of the (record, window) pairs{_pairs(step.window)} are in the timely answers; ",
    )
    if effect.late_pairs:
        late = share(effect.late_pairs, effect.pairs)
        said.append("the rest, ")
        said.append(late, style="bold yellow")
        said.append(f", is corrected {plan.correction}.")
    else:
        said.append("none is left to correct.")
    if effect.beyond:
        said.append(
            f" {share(effect.beyond, effect.records)} of the records are later than {span}."
        )
    out.print(Padding(said, (0, 0, 0, 2), expand=False))
    out.print(Padding(Text(f"{foretold(worth)}."), (0, 0, 0, 2), expand=False))


def show_doubts(found: Sequence[str], out: Console) -> None:
    """Say what stands against its quality target."""
    for said in found:
        out.print(Padding(Text(f"{said}.", style="yellow"), (0, 0, 0, 2), expand=False))


def _pairs(plan: WindowPlan) -> str:
    windows = plan.size // plan.slide
    return f" (a record is in {windows} windows)" if windows > 1 else ""


def show_alternatives(
    own: tuple[SlackEffect, Worth], others: dict[str, tuple[SlackEffect, Worth]], out: Console
) -> None:
    """Show what other slacks would do to the sampled records, cost and bring."""
    columns = ("slack K", "that waits for", "mean K", "wait", "95 %", "off, expected",
               "pairs late", "records late")  # fmt: skip
    shown = table(
        *columns, right=tuple(set(columns) - {"that waits for"}),
        title="What a slack means on the sample",
    )  # fmt: skip
    said = "as declared" if own[0].slack.policy is SlackPolicy.FIXED else "as declared, at the end"
    rows = [*others.items(), (said, own)]
    for said, (effect, worth) in sorted(rows, key=lambda row: row[1][0].k):
        wait = worth.wait and [spoken(round(one)) for one in (worth.wait.half, worth.wait.most)]
        shown.add_row(
            spoken(effect.k),
            said,
            NOTHING if worth.slack is None else spoken(round(worth.slack)),
            *(wait or [NOTHING] * 2),
            _expected(worth),
            share(effect.late_pairs, effect.pairs),
            share(effect.late_records, effect.records),
            style="bold" if effect is own[0] else None,
        )
    put(shown, out)


def _expected(worth: Worth) -> str:
    for rate in worth.rates:
        return UNKNOWN if rate.expected is None else share(rate.off, rate.of)
    return NOTHING
