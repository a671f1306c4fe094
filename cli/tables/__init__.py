"""Commands that make tables and reports from captures: analyze, spark-analyze, spark-stream, report, doctor."""

__all__: list[str] = []
