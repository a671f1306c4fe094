"""Tenants, namespaces, the policies of namespaces and topics, and the table of all policies."""

__all__: list[str] = []
