"""Deprecated name of `pcli.spark.jobs.data_source`, kept for one version."""

from warnings import warn

from pcli.spark.jobs.data_source import PulsarCapture

__all__ = ["PulsarCapture"]

warn("pcli.spark.jobs.source is deprecated: import pcli.spark.jobs.data_source", DeprecationWarning, stacklevel=2)
