"""Tables on disk: their catalog and schemas, the commit of a run, and reading."""

__all__: list[str] = []
