"""Authentication and authorization: who a client is, and what it may do."""

__all__: list[str] = []
