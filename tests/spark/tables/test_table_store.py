"""A folder on any file system: an error is one line with the path."""

import os

import pytest
from pyarrow import fs

from pcli.codec.errors import LocalError
from pcli.spark.tables.table_store import Store, open_store


@pytest.fixture(params=["local", "mock"])
def store(request, tmp_path):
    if request.param == "local":
        return open_store(str(tmp_path / "out"))
    return Store(fs._MockFileSystem(), "bucket/out")


def test_written_files_are_read_and_listed(store):
    assert store.list() == []
    assert store.read("a/b") is None
    store.write("a/b", b"one")
    store.write("a/c/d", b"two")
    assert store.read("a/b") == b"one"
    assert store.list() == ["a"]
    assert store.list("a") == ["a/b", "a/c"]
    assert store.list(deep=True) == ["a/b", "a/c/d"]
    assert store.has("a")
    assert not store.has("b")


def test_moved_and_removed(store):
    store.write("a/b", b"one")
    store.move("a/b", "c/d/e")
    assert store.list(deep=True) == ["c/d/e"]
    store.remove("c/d/e")
    store.remove("c/d/e")
    store.remove_folder("c")
    store.remove_folder("c")
    assert store.list(deep=True) == []


def test_errors_of_the_file_system_are_reported_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    store = open_store(str(tmp_path / "file"))
    for refused in (store.list, lambda: store.write("a", b""), lambda: store.read("a"), lambda: store.move("a", "b")):
        with pytest.raises(LocalError) as told:
            refused()
        assert str(tmp_path / "file") in str(told.value)
        assert "a file, not a folder" in str(told.value) or "a file with this name exists" in str(told.value)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("place", ["nowhere://x/y", "s3://", "file://"])
def test_an_invalid_folder_is_refused(place):
    with pytest.raises(LocalError, match=place):
        open_store(place)


def test_a_folder_name_that_is_not_utf_8_is_reported_in_one_line(tmp_path):
    with pytest.raises(LocalError, match=r"/caf\\xe9: the name is not UTF-8: specify a different folder$"):
        open_store(str(tmp_path / os.fsdecode(b"caf\xe9")))
