"""Where a pipeline has several sources, ``explain`` and ``show`` name their streams."""

from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

from rich.console import Console

from penstock.config.settings import Settings
from penstock.runtime.terminal.answer_tables import Wanted
from penstock.runtime.terminal.explain import show_explanation
from penstock.runtime.terminal.show import show_answers
from tests.rivers import Rivers, some_far, some_near

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


def filled(home: Path) -> Rivers:
    rivers = Rivers(home, {"near": "live", "far": "bounded"}, "sites", "codes")
    rivers.query()
    rivers.put("near", some_near(20, 1))
    rivers.put("far", some_far(15, 1))
    return rivers


def test_each_stream_is_explained_with_the_steps_over_it(tmp_path: Path) -> None:
    rivers, said = filled(tmp_path), StringIO()
    show_explanation(Settings(home=tmp_path), rivers.pipeline, NOW, Console(file=said, width=200))
    text = said.getvalue()
    places = [text.index(part) for part in (
        "Source near", "Records near", "event_time; without", "Disorder near", "Step sites",
        "Source far", "Records far", "at; without a zone it is read as America/New_York",
        "Step codes", "Tables (Delta)",
    )]  # fmt: skip
    assert places == sorted(places)
    assert text.count("DAGs in Airflow") == 1


def test_the_balance_names_the_streams(tmp_path: Path) -> None:
    rivers, said = filled(tmp_path), StringIO()
    rivers.ingest()
    rivers.query().run()
    pipeline = rivers.pipeline
    console = Console(file=said, width=200)
    show_answers(
        Settings(home=tmp_path),
        pipeline,
        pipeline.specs,
        Wanted({}, None, revisions=False),
        console,
    )
    lines = [" ".join(line.split()) for line in said.getvalue().splitlines()]
    assert any("of stream near" in line and " 20 " in line for line in lines), lines
    assert any("of stream far" in line and " 15 " in line for line in lines)
    assert any(line.startswith("stream near") for line in lines)
