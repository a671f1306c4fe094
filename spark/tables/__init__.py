"""Tables on disk: their catalog and schemas, the commit of a run to Delta tables, reading and maintenance."""

__all__: list[str] = []
