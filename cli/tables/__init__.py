"""Commands that make tables of captures and reports: analyze, spark-analyze, spark-stream, report, doctor."""

__all__: list[str] = []
