"""What needs Spark: the session, the stages on it, the stream, the data source. Nothing else imports pyspark."""

__all__: list[str] = []
