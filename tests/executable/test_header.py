"""executable/header.sh in front of the archive of a folder that contains a shell script named `pcli`."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).parent.parent.parent / "executable" / "build.py"
SHORT = 10_000
"""The archive contains random bytes, so that it is longer than this."""


@pytest.fixture(scope="module")
def build():
    spec = importlib.util.spec_from_file_location("build_executable", BUILD)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def frozen(tmp_path):
    folder = tmp_path / "frozen"
    folder.mkdir()
    (folder / "pcli").write_text('#!/bin/sh\necho started "$@"\n')
    (folder / "pcli").chmod(0o755)
    (folder / "library").write_bytes(os.urandom(2 * SHORT))
    return folder


@pytest.fixture
def executable(build, frozen, tmp_path):
    build.pack(frozen, tmp_path / "pcli")
    return tmp_path / "pcli"


@pytest.fixture
def start(executable, tmp_path):
    """Start the executable with a cache folder; return the exit code, stdout and stderr."""

    def run(*words, before=()):
        env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "a cache")}
        done = subprocess.run([*before, executable, *words], env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "a cache" / "pcli" / "executable"


def folders(cache):
    return [path for path in cache.iterdir() if path.is_dir()]


def test_it_passes_its_arguments(start, cache):
    assert start("a b", "") == (0, "started a b \n", "")
    assert len(folders(cache)) == 1


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_closed_files_do_not_prevent_the_first_start(start, closed):
    assert start(before=["sh", "-c", f'exec "$@" {closed}', "sh"]) == (0, "started\n", "")


@pytest.mark.parametrize("damage", ["truncated", "checksum"])
def test_a_damaged_file_is_reported_and_leaves_no_folder(executable, start, cache, damage):
    content = bytearray(executable.read_bytes())
    if damage == "truncated":
        del content[-SHORT:]
    else:
        content[-8] ^= 1
    executable.write_bytes(content)
    text = f"pcli: {executable}: incomplete or damaged: download or build it again\n"
    assert start() == (2, "", text)
    assert not folders(cache)


def test_a_folder_without_pcli_is_unpacked_again(start, cache):
    start()
    (folder,) = folders(cache)
    (folder / "pcli").unlink()
    assert start() == (0, "started\n", "")


def test_a_cache_whose_files_cannot_be_executed_is_reported(build, frozen, executable, start, cache):
    """As on a file system that is mounted with noexec."""
    (frozen / "pcli").chmod(0o644)
    build.pack(frozen, executable)
    text = f"pcli: {cache}: no file in it can be executed: XDG_CACHE_HOME can name another folder\n"
    assert [start(), start()] == [(2, "", text)] * 2


def test_without_a_lock_the_folders_of_other_starts_remain(start, cache, executable, tmp_path):
    """A network file system may refuse locks."""
    start()
    (folder,) = folders(cache)
    other = folder.rename(folder.with_name(f"{folder.name}.1"))
    refusing = tmp_path / "bin" / "flock"
    refusing.parent.mkdir()
    refusing.write_text("#!/bin/sh\nexit 71\n")
    refusing.chmod(0o755)
    path = f"PATH={refusing.parent}{os.pathsep}{os.environ['PATH']}"
    assert start(before=["env", path]) == (0, "started\n", "")
    assert other.exists()
