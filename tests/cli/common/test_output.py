"""Files that appear when they are complete."""

import os
import stat

import pytest

from pcli.cli.common.output import complete_file


def write(path, text):
    with complete_file(path) as part:
        part.write_text(text)


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("earlier")
    path.chmod(0o600)
    write(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_the_target_of_a_link_is_replaced(tmp_path):
    path, link = tmp_path / "target", tmp_path / "link"
    path.write_text("earlier")
    link.symlink_to(path)
    write(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_after_an_exception_the_earlier_file_remains(tmp_path):
    path, other = tmp_path / "rows", tmp_path / "rows.part"
    path.write_text("earlier")
    other.write_text("of a different program")
    with pytest.raises(TypeError):
        write(path, None)
    assert path.read_text() == "earlier"
    assert set(tmp_path.iterdir()) == {path, other}


def test_names_below_dev_are_written_directly(tmp_path):
    with (tmp_path / "out").open("w") as file, complete_file(f"/dev/fd/{file.fileno()}") as part:
        assert str(part) == f"/dev/fd/{file.fileno()}"


def test_a_pipe_is_written_directly(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with complete_file(tmp_path / "pipe") as part:
        assert part == tmp_path / "pipe"


def test_an_error_names_the_file_that_the_user_specified(tmp_path):
    path = tmp_path / "nowhere" / "rows.csv"
    with pytest.raises(OSError, match="No such file") as error:
        write(path, "")
    assert error.value.filename == str(path)
