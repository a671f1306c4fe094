"""The packages pcli.codec and pcli.spark as a zip, for workers on which they are not installed.

Rules of this file
1. The zip contains only the packages that tasks import. Their dependencies (numpy, pyarrow, google-crc32c, cramjam,
   protobuf) must be installed on the workers, because a zip cannot contain compiled code.
2. ``pcli`` is a namespace package: it has no ``__init__.py``. Before 3.13, Python finds such a package in a zip only if
   the zip has entries for its folders. These entries are therefore written.
3. The same code results in a zip with the same bytes and the same name, so a cluster stores it only once.
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
from typing import TYPE_CHECKING, Any, Final

import pcli.codec
from pcli.spark.jobs.settings import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

_SHIPPED: Final[set[str]] = set()
"""Ids of the Spark applications and of the sessions of Spark Connect that received the code from `ship_once`."""

_TIME: Final = (1980, 1, 1, 0, 0, 0)


def is_connect(session: Any) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def ship(context: SparkContext, folder: Path) -> str:
    """Send the code to an application's workers; return the name of the zip, which must remain in ``folder``."""
    path = code_zip(folder)
    context.addPyFile(str(path))
    return path.name


def ship_once(session: SparkSession | ConnectSession) -> None:
    """Send the code once to the workers of a caller's session, unless the JVM of the driver runs the tasks."""
    if is_connect(session):
        _ship_to_server(session)
        return
    context = session.sparkContext
    if not is_local(str(context.master)) and context.applicationId not in _SHIPPED:
        folder = Path(tempfile.mkdtemp(prefix="pcli-spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        ship(context, folder)
        _SHIPPED.add(context.applicationId)


def _ship_to_server(session: Any) -> None:
    if session.session_id not in _SHIPPED:
        with tempfile.TemporaryDirectory(prefix="pcli-spark-") as folder:
            session.addArtifacts(str(code_zip(Path(folder))), pyfile=True)
        _SHIPPED.add(session.session_id)


def unship() -> None:
    """Remove the zips from this process's path. Spark adds these zips, and they are deleted with the session."""
    sys.path[:] = [entry for entry in sys.path if not Path(entry).name.startswith("pcli-code-")]


def code_zip(folder: Path) -> Path:
    """Write the zip into a folder and return its path."""
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
    """Yield each module's name in the zip and its path."""
    # `import pcli.spark` would be circular: that package imports this module.
    for package, root in (("codec", Path(pcli.codec.__path__[0])), ("spark", Path(__file__).parents[1])):
        for path in root.rglob("*.py"):
            yield (Path("pcli", package) / path.relative_to(root)).as_posix(), path
