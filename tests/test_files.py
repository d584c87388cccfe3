"""Files appear whole or not at all."""

from pathlib import Path

import pytest

from hindsight.files import FileError, write_whole


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def fails(part: Path) -> None:
        part.write_text("half of the n")
        raise OSError("the disk is full")

    with pytest.raises(FileError, match=r"table\.csv: cannot be written: the disk is full"):
        write_whole(path, fails)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_appears_under_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "table.csv"

    def writes(part: Path) -> None:
        part.write_text("all of it")
        assert not path.exists() and part.suffix == path.suffix

    write_whole(path, writes)
    assert path.read_text() == "all of it"
    assert [p.name for p in path.parent.iterdir()] == ["table.csv"]
