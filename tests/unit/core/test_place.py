"""Places: a folder's path and its URI, whatever the folder is called."""

from pathlib import Path

import pyarrow.fs
import pytest

from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.core.place import is_remote, path_of, unsuited, uri_of

NAMES = ["plain", "a b", "#1", "50%", "%41", "?", "[ü]", "{a}", "日本", "a:b", "a'b", "*~&+;="]


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_and_its_uri_are_each_other_under_any_name(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    assert path_of(uri_of(folder)) == folder
    assert uri_of(name, tmp_path) == uri_of(uri_of(folder)) == folder.as_uri()
    assert pyarrow.fs.FileSystem.from_uri(uri_of(folder))[1] == str(folder)


def test_what_is_not_on_this_machine_stays_a_uri() -> None:
    for place in ("s3://bucket/a", "s3:///a", "abfss://c@account/a", "az:///a"):
        assert is_remote(place)
        assert uri_of(place) == place
        with pytest.raises(ValueError, match="no file of this machine"):
            path_of(place)
    assert not is_remote("file:///a")
    for place in ("file://other/a", "file:///a?b", "file:///a#b"):
        with pytest.raises(ValueError, match=r"no file of this machine|%3F"):
            path_of(place)


@pytest.mark.parametrize("name", ["[x", "x]", "%41", "a^b", "a|b", "a\\b", "a\nb"])
def test_a_lake_that_deltalake_would_lay_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / name)
    for home in (tmp_path / name, link):  # deltalake resolves links
        with pytest.raises(ConfigError, match="Set PENSTOCK_LAKE to another folder"):
            _ = Settings(home=home, lake="").lake_uri
    assert Settings(home=tmp_path / name, lake=str(tmp_path)).lake_uri == str(tmp_path)


def test_every_other_name_of_a_lake_is_taken_as_a_path_or_as_its_uri(tmp_path: Path) -> None:
    assert not unsuited(tmp_path)
    assert Settings(lake=uri_of(tmp_path)).lake_uri == str(tmp_path)
    with pytest.raises(ConfigError, match=r"PENSTOCK_LAKE: file:///a\?b: write \?"):
        _ = Settings(lake="file:///a?b").lake_uri
