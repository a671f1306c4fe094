"""Commands that write tables and reports of captures: analyze, spark-analyze, spark-stream, report, doctor."""

__all__: list[str] = []
