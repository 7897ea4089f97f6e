"""Pictures of the command: no line is drawn through a gap, be it of hours or of days."""

import re
from collections import Counter
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

from penstock.core.controller import Measured
from penstock.core.window import micros
from penstock.lake.proof.observed import Waited
from penstock.runtime.terminal import beside as terminal_beside
from penstock.runtime.terminal import quality as terminal_quality
from tests.steps import case
from tests.unit.terminal.conftest import TEN

STEP = case("sites").spec


def pieces(picture: Path, color: str) -> list[int]:
    """Of each curve of a color, how many pieces it is drawn in."""
    root = ElementTree.parse(picture).getroot()  # noqa: S314  drawn here
    paths = [p for p in root.iter("{http://www.w3.org/2000/svg}path") if "clip-path" in p.attrib]
    curves = [p.get("d", "") for p in paths if f"stroke: {color}" in p.get("style", "")]
    return [len(re.findall("M ", curve)) for curve in curves]


def test_slack_and_threshold_stop_before_a_gap(tmp_path: Path) -> None:
    slide = STEP.window.slide
    places = [0, 1, 2, 9, 10, 30, 31]
    windows = [
        Measured(micros(TEN) + i * slide, 9, 10, 1_000_000 * (1 + i), 0.05, 0.0, 0.9)
        for i in places
    ]
    told = [Waited(TEN, 1_000_000, None)]
    terminal_quality.draw(STEP, told, windows, tmp_path / "a.svg")
    assert pieces(tmp_path / "a.svg", "#0b7285") == [3]
    assert pieces(tmp_path / "a.svg", "#e8590c") == [3]
    unbroken = [Measured(micros(TEN) + i * slide, 9, 10, 1, 0.05, 0.0, 0.9) for i in range(7)]
    terminal_quality.draw(STEP, told, unbroken, tmp_path / "b.svg")
    assert pieces(tmp_path / "b.svg", "#0b7285") == [1]


def test_days_without_windows_are_gaps_beside_each_other(tmp_path: Path) -> None:
    slide = timedelta(microseconds=STEP.window.slide)
    starts = [TEN, TEN + slide, TEN + timedelta(days=1), TEN + timedelta(days=5)]
    starts.append(starts[-1] + timedelta(days=1))
    windows = [{"window_start": start, "coverage": 0.9} for start in starts]
    slack = [(start, 1_000_000) for start in starts]
    held = [(TEN, 2_000_000), (starts[-1], 2_000_000)]
    sides = [
        terminal_beside.Side("a: quantile", slack, STEP.window.slide, windows, Counter()),
        terminal_beside.Side("b: max_delay", held, None, windows, Counter()),
    ]
    terminal_beside.draw("s", sides, tmp_path / "a.svg")
    by_window, by_micro_batch = terminal_beside.COLORS
    assert pieces(tmp_path / "a.svg", by_window) == [4, 2, 2], "slack; coverage, corrected by day"
    assert pieces(tmp_path / "a.svg", by_micro_batch) == [1, 2, 2]
