"""Deprecated name of `pcli.spark.tables.stored_tables`, kept for one version."""

from warnings import warn

from pcli.spark.tables.stored_tables import StoredTables

__all__ = ["StoredTables"]

warn("pcli.spark.stored is deprecated: import pcli.spark.tables.stored_tables", DeprecationWarning, stacklevel=2)
