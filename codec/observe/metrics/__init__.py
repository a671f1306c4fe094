"""Metrics of live traffic for Prometheus.

- metric_table.py: the table of all metrics
- collector.py: collects counters, gauges and latencies from a diagnosis; gauges.py: the gauges
- own_series.py: the objects that have series of their own
- object_series.py: the series of these objects and of the others
- series_values.py: values of series
"""

__all__: list[str] = []
