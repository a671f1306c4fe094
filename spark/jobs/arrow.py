"""DataFrame.mapInArrow for a driver without pandas.

pyspark's own method begins by asking for pandas, which it then doesn't use (`pandas_udf` in
pyspark/sql/pandas/functions.py); the rest of it is done here alike. Workers need pyarrow only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["map_in_arrow"]


def map_in_arrow(
    frame: DataFrame,
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """A DataFrame of what ``function`` yields, called once a partition with that partition's batches."""
    from pyspark.util import PythonEvalType

    column = _column(frame, function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    return _frame(frame, frame._jdf.mapInArrow(column, False, None))  # noqa: FBT003  (of Java: no barrier)


def _column(frame: DataFrame, function: Callable[..., Any], schema: StructType | str, kind: int) -> Any:
    from pyspark.sql.udf import UserDefinedFunction

    call = UserDefinedFunction(function, returnType=schema, name=function.__name__, evalType=kind)
    column: Any = call(*[frame[name] for name in frame.columns])
    return column._jc


def _frame(frame: DataFrame, made: Any) -> DataFrame:
    from pyspark.sql import DataFrame as Classic

    return Classic(made, frame.sparkSession)
