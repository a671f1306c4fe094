"""Tables on disk: their catalog and schemas, how a run commits them, and how readers open them."""

__all__: list[str] = []
