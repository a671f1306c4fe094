"""Our own code for workers that don't have it: the packages pcli.codec and pcli.spark as a zip.

Rules of this file
1. Only what tasks import goes along. What it imports in turn (numpy, pyarrow, google-crc32c, cramjam, protobuf) must be
   on the workers; a zip can't hold compiled code.
2. ``pcli`` is a namespace: it has no ``__init__.py``. Python finds such a package in a zip only if the zip has entries
   for its folders (before 3.13), so they are written.
3. The same code gives the same bytes, and the name says which: a cluster that has it already takes no other.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pcli.spark.jobs.settings import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["code_zip", "ship", "ship_once", "unship"]

_ROOMS: Final = ("codec", "spark")
_SHIPPED: Final[set[str]] = set()
"""Applications of Spark that have our code from `ship_once`."""

_TIME: Final = (1980, 1, 1, 0, 0, 0)


def ship(context: SparkContext, folder: Path) -> str:
    """Give an application's workers our code; the name of the zip, which is made in ``folder`` and must stay there."""
    path = code_zip(folder)
    context.addPyFile(str(path))
    return path.name


def ship_once(session: SparkSession) -> None:
    """The same for a session of somebody else's, unless its tasks run here, or it has the code by now."""
    context = session.sparkContext
    if not is_local(str(context.master)) and context.applicationId not in _SHIPPED:
        folder = Path(tempfile.mkdtemp(prefix="pcli-spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        ship(context, folder)
        _SHIPPED.add(context.applicationId)


def unship() -> None:
    """Take the zips off this process's own path again: Spark puts them there, and they go with the session."""
    sys.path[:] = [entry for entry in sys.path if not Path(entry).name.startswith("pcli-code-")]


def code_zip(folder: Path) -> Path:
    """Write the zip into a folder; its path."""
    files = sorted(_files())
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    target = folder / f"pcli-code-{digest.hexdigest()[:16]}.zip"
    folders = sorted({str(parent) for name, _ in files for parent in Path(name).parents if parent != Path()})
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in folders:
            archive.writestr(zipfile.ZipInfo(f"{name}/", _TIME), b"")
        for name, path in files:
            archive.writestr(zipfile.ZipInfo(name, _TIME), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target


def _files() -> Iterator[tuple[str, Path]]:
    """Name in the zip and path of each module."""
    import pcli.codec
    import pcli.spark

    for room, package in zip(_ROOMS, (pcli.codec, pcli.spark)):
        root = Path(package.__path__[0])
        for path in root.rglob("*.py"):
            yield (Path("pcli", room) / path.relative_to(root)).as_posix(), path
