"""Names of files between Spark, whose paths are those of Hadoop, and pyarrow, which opens them for us.

Hadoop's look like URIs but hold every character as it is: a blank is a blank, a per cent sign one too.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["plain_path", "spark_path"]


def plain_path(path: str) -> str:
    """The path for `pcli.spark.input.read_plan` of a Spark path: ``file:/a b`` is ``/a b``; pyarrow names s3a s3."""
    scheme, _, rest = path.partition(":")
    if scheme == "file":
        return f"/{rest.lstrip('/')}"
    return f"s3:{rest}" if scheme == "s3a" else path


def spark_path(place: str) -> str:
    """The other way round; what is no URI is a path of this machine."""
    if "://" not in place:
        return f"file://{Path(place).absolute().as_posix()}"
    return place.replace("s3://", "s3a://", 1) if place.startswith("s3://") else place
