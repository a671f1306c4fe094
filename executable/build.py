"""Build the executable: python executable/build.py FOLDER writes FOLDER/pcli and prints its size.

The Python that runs this script contains pcli and requirements/executable.txt, and nothing else: `make executable`.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
MEGABYTE = 1_000_000


def build(folder: Path) -> None:
    """Freeze pcli, and pack the result into one file."""
    command = [sys.executable, "-m", "PyInstaller", "--log-level", "ERROR", "--noconfirm"]
    work = ["--workpath", folder / "work", "--distpath", folder / "frozen"]
    subprocess.run([*command, *work, HERE / "pcli.spec"], check=True)
    if sys.platform == "win32":
        result = folder / "pcli.exe"
        shutil.move(folder / "frozen" / "pcli.exe", result)
        print(f"{result}: {result.stat().st_size / MEGABYTE:.0f} MB")
    else:
        pack(folder / "frozen" / "pcli", folder / "pcli")


def pack(frozen: Path, result: Path) -> None:
    """Write an executable shell script with a compressed archive of a folder after it."""
    paths = sorted(frozen.rglob("*"))
    sizes = [path.stat().st_size for path in paths if path.is_file() and not path.is_symlink()]
    name = f"{version('pulsar-pcli')}-{digest(frozen, paths)}"
    megabytes = f"{sum(sizes) / MEGABYTE:.0f}"
    text = (HERE / "header.sh").read_text()
    for word, value in (("@VERSION@", version("pulsar-pcli")), ("@ID@", name), ("@MEGABYTES@", megabytes)):
        text = text.replace(word, value)
    # The number has as many characters as the word, so that the offset is known.
    text = text.replace("@OFFSET@", f"{len(text.encode()) + 1:<8}")
    part = result.with_suffix(".part")
    with part.open("wb") as file:
        file.write(text.encode())
        with (
            gzip.GzipFile("", "wb", 6, file, mtime=0) as compressed,
            tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in (frozen, *paths):
                archive.add(
                    path, f"{name}/{path.relative_to(frozen)}".removesuffix("/."), recursive=False, filter=plain
                )
    part.chmod(0o755)
    part.replace(result)
    print(f"{result}: {result.stat().st_size / MEGABYTE:.0f} MB, unpacked {megabytes} MB in {len(sizes)} files")


def digest(frozen: Path, paths: list[Path]) -> str:
    """Return a short hash of the names and contents of all files."""
    total = hashlib.sha256()
    for path in paths:
        total.update(os.fsencode(path.relative_to(frozen)) + b"\0")
        if path.is_symlink():
            total.update(os.fsencode(path.readlink()))
        elif path.is_file():
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:12]


def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return an entry without the user and the time of this machine."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve())
