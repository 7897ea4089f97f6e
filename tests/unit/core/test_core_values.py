"""Windows, steps and instants: boundaries and refusals, one by one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from penstock.core.errors import ConfigError
from penstock.core.slack import SlackPolicy, SlackSpec
from penstock.core.window import BEGINNING, FOREVER, WindowSpec, instant, micros
from tests.steps import case
from tests.streams import MINUTE, SECOND, at, us


def test_a_window_closes_when_its_end_is_on_the_watermark() -> None:
    #          12:00     12:10     12:20
    #            [--- A ---)[--- B ---)
    window = WindowSpec(10 * MINUTE, 10 * MINUTE)
    a, b = us(at("12:00")), us(at("12:10"))
    assert window.closed_of(a, us(at("12:10"))) == 1
    assert window.closed_of(a, us(at("12:10")) - 1) == 0
    assert window.closed_of(b, us(at("12:10"))) == 0


def test_the_end_of_a_window_belongs_to_the_next() -> None:
    window = WindowSpec(10 * MINUTE, 10 * MINUTE)
    assert list(window.windows_of(us(at("12:10")))) == [us(at("12:10"))]
    assert list(window.windows_of(us(at("12:10")) - 1)) == [us(at("12:00"))]


def test_a_sliding_window_holds_an_instant_size_by_slide_times() -> None:
    window = WindowSpec(60 * MINUTE, 15 * MINUTE)
    assert window.panes == 4
    starts = list(window.windows_of(us(at("12:20"))))
    assert starts == [us(at(t)) for t in ("11:30", "11:45", "12:00", "12:15")]


@pytest.mark.parametrize(("size", "slide", "origin", "said"), [
    (0, 1, 0, "size and a slide above zero"),
    (SECOND, 2 * SECOND, 0, "slide 0:00:02 is longer than size 0:00:01.*Lower slide to at most"),
    (1_500, 1_500, 0, "whole milliseconds: round them"),
    (SECOND, SECOND, 7, "whole milliseconds"),
    (86_400 * SECOND, 7 * SECOND, 0, "86,400 panes, at most 1,000.*a slide that divides the size"),
])  # fmt: skip
def test_impossible_windows_are_refused(size: int, slide: int, origin: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        WindowSpec(size, slide, origin)


@pytest.mark.parametrize("us_", [0, 1, -1, 1_700_000_000_123_456, -62_000_000_000_000_000])
def test_instants_survive_the_way_through_microseconds(us_: int) -> None:
    assert micros(instant(us_)) == us_


def test_instants_beyond_the_calendar_are_clamped() -> None:
    assert instant(BEGINNING) == datetime(1, 1, 1, tzinfo=UTC)
    assert instant(FOREVER) == datetime(9999, 12, 31, tzinfo=UTC)


def test_a_duration_has_no_rounding() -> None:
    assert micros(timedelta(days=365_000, microseconds=1)) == 365_000 * 86_400_000_000 + 1


def test_the_fingerprint_names_the_meaning_and_not_the_slack() -> None:
    step = case("sites").spec
    other_slack = replace(step, slack=SlackSpec(SlackPolicy.FIXED, 0))
    assert other_slack.fingerprint == step.fingerprint
    changed = [
        replace(step, window=WindowSpec(60 * SECOND, 30 * SECOND)),
        replace(step, measures=step.measures[1:]),
        replace(step, keys=()),
        replace(step, where=case("codes").spec.where),
    ]
    assert len({s.fingerprint for s in [step, *changed]}) == 5


def test_a_step_reads_only_its_columns() -> None:
    assert case("sites").spec.columns == ("bags", "delay", "site")
    assert case("codes").spec.columns == ("bags", "code", "delay", "live")
    assert case("landmark").spec.columns == ("delay",)
