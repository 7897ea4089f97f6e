"""Files that are replaced as a whole."""

from pathlib import Path
from threading import Thread

from penstock.config.whole import take_place, write_whole, written


def test_a_file_that_two_threads_write_is_that_of_the_last(tmp_path: Path) -> None:
    file = tmp_path / "definitions" / "gates.yaml"
    fresh = written(file, b"checked")
    for content, does in ((b"a draft", written), (b"in between", write_whole)):
        other = Thread(target=does, args=(file, content))
        other.start()
        other.join()
    assert file.read_bytes() == b"in between"
    take_place(fresh, file)
    assert file.read_bytes() == b"checked"
