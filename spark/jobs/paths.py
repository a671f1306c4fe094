"""Conversion between Spark's file names, which are Hadoop paths, and pyarrow's file names, which open the files.

Hadoop paths look like URIs but are not percent-encoded: spaces and percent signs are not escaped.
"""

from __future__ import annotations

from pathlib import Path


def plain_path(path: str) -> str:
    """Convert a Spark path for `pcli.spark.input.read_plan`: ``file:/a b`` becomes ``/a b``, and s3a becomes s3."""
    scheme, _, rest = path.partition(":")
    if scheme == "file":
        return f"/{rest.lstrip('/')}"
    return f"s3:{rest}" if scheme == "s3a" else path


def spark_path(place: str) -> str:
    """Convert a path or URI for Spark. Anything that is not a URI is a local path."""
    if "://" not in place:
        return f"file://{Path(place).absolute().as_posix()}"
    return place.replace("s3://", "s3a://", 1) if place.startswith("s3://") else place
