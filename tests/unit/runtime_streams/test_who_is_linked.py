"""Who is linked to the host of a log, by names of files."""

from pathlib import Path

from penstock.runtime.streams import links
from penstock.runtime.streams.paths import StreamPaths


def test_whatever_its_name_a_pipeline_is_linked_and_unlinked(tmp_path: Path) -> None:
    host = StreamPaths(tmp_path, "gates")
    names = ["gates", "link", "new", "new-minute"]
    for name in names:
        assert links.link(host, name)
        assert links.runs(host, name)
    assert links.linked(host) == names
    for name in names[:-1]:
        links.unlink(tmp_path, name, "marked")
    assert (links.linked(host), host.stop.exists()) == (["new-minute"], False)


def test_a_link_that_is_being_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "gates.link.trucks.123.456.new").touch()
    assert links.linked(StreamPaths(tmp_path, "gates")) == []
