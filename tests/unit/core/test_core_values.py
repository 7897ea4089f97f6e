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


def test_how_many_are_closed_is_a_number_to_count_with() -> None:
    window = WindowSpec(30 * SECOND, 10 * SECOND)
    for watermark, closed in ((BEGINNING, []), (20 * SECOND, [0, 1]), (FOREVER, [0, 1, 2])):
        assert [*range(window.closed_of(0, watermark))] == closed


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
    (SECOND, 0, 0, "size and a slide above zero"),
    (SECOND, -SECOND, 0, "size and a slide above zero"),
    (-SECOND, SECOND, 0, "size and a slide above zero"),
    (1, 1, 0, "whole milliseconds"),
    (SECOND, 2 * SECOND, 0, "slide 0:00:02 is longer than size 0:00:01.*Lower slide to at most"),
    (1_500, 1_500, 0, "whole milliseconds: round them"),
    (SECOND, SECOND, 7, "whole milliseconds"),
    (SECOND, SECOND - 1, 0, "whole milliseconds"),
    (1_001_000, 1_000, 0, "1,001 panes, at most 1,000"),
    (86_400 * SECOND, 7 * SECOND, 0, "86,400 panes, at most 1,000.*a slide that divides the size"),
])  # fmt: skip
def test_impossible_windows_are_refused(size: int, slide: int, origin: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        WindowSpec(size, slide, origin)


def test_what_a_window_is_cannot_be_changed() -> None:
    window = WindowSpec(SECOND, SECOND)
    with pytest.raises(AttributeError):
        window.size = 2 * SECOND
    assert window in {WindowSpec(SECOND, SECOND)}


def test_a_window_of_a_thousand_panes_is_allowed() -> None:
    assert WindowSpec(1_000_000, 1_000).panes == 1_000


def test_windows_start_at_the_epoch_and_have_no_landmark_unless_it_is_said() -> None:
    window = WindowSpec(10 * SECOND, 5 * SECOND)
    assert list(window.windows_of(0)) == [-5 * SECOND, 0]
    assert list(window.windows_of(-1)) == [-10 * SECOND, -5 * SECOND]


def test_a_landmark_holds_its_own_instant_and_nothing_before_it() -> None:
    window = WindowSpec(10 * SECOND, 10 * SECOND, 3 * SECOND, landmark=True)
    assert list(window.windows_of(3 * SECOND)) == [3 * SECOND]
    assert list(window.windows_of(3 * SECOND - 1)) == []


def test_panes_and_windows_by_hand() -> None:
    """[-7, 18), [3, 28), [13, 38), [23, 48) ms and so on, in panes of 5 ms."""
    window, ms = WindowSpec(25_000, 10_000, 3_000), 1_000
    assert (window.pane, window.panes) == (5 * ms, 5)
    assert list(window.panes_of(3 * ms)) == [3 * ms, 8 * ms, 13 * ms, 18 * ms, 23 * ms]
    assert [window.pane_of(t * ms) // ms for t in (3, 7, 8, 2, -7, -8)] == [3, 3, 8, -2, -7, -12]
    assert [window.first_window(t * ms) // ms for t in (13, 18, 23)] == [-7, 3, 3]
    assert [window.last_window(t * ms) // ms for t in (3, 8, 13, -2)] == [3, 3, 13, -7]
    assert [window.floor(t) for t in (3 * ms, 13 * ms - 1, 13 * ms)] == [3 * ms, 3 * ms, 13 * ms]


def test_one_number_more_has_ended_when_a_window_ends() -> None:
    window = WindowSpec(25_000, 10_000, 3_000)  # ends at 18, 28, 38 ms
    assert [window.ends(t) for t in (28_000, 38_000 - 1, 38_000, 28_000 - 1)] == [0, 0, 1, -1]


def test_the_first_and_the_last_instant_are_what_lakes_hold() -> None:
    """They stand in tables: no version may mean another instant."""
    assert (BEGINNING, FOREVER) == (-4_611_686_018_427_387_904, 4_611_686_018_427_387_904)


def test_instants_count_from_1970() -> None:
    assert micros(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert micros(datetime(2001, 9, 9, 1, 46, 40, 5, tzinfo=UTC)) == 1_000_000_000_000_005
    assert instant(86_400_000_001) == datetime(1970, 1, 2, 0, 0, 0, 1, tzinfo=UTC)


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
