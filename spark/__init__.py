"""Analysis of captures of any size in one process or on Spark. The results are tables and a report.

`analyze` and `read_messages` are for programs with a Spark session; they take and return DataFrames. pyspark is
imported only when one of them is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pcli.spark.jobs.api import analyze, read_messages

__all__ = ["analyze", "read_messages"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from pcli.spark.jobs import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
