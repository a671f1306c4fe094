"""Commands that accept connections of Pulsar clients: broker and proxy."""

__all__: list[str] = []
