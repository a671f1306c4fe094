"""All code that needs pyspark: the session, the Engine on Spark, the stream, the data source."""

__all__: list[str] = []
