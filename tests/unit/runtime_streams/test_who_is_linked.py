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


def test_a_link_says_who_last_saw_to_the_host_and_no_word_makes_a_link(tmp_path: Path) -> None:
    host = StreamPaths(tmp_path, "gates")
    links.mark(host, "trucks", "nobody has linked it")
    assert links.linked(host) == []
    links.link(host, "trucks")
    assert links.marked_by(host, "trucks") == ""
    for who in ("a long one/12", "b/1"):
        links.mark(host, "trucks", who)
        links.link(host, "trucks")
        assert links.marked_by(host, "trucks") == who
    links.unlink(tmp_path, "trucks", "marked")
    links.link(host, "trucks")
    assert links.marked_by(host, "trucks") == "", "another link"
