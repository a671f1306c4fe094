"""Authentication and authorization: the roles of clients, and their permissions."""

__all__: list[str] = []
