"""Tenants, namespaces and the policies of namespaces and topics, with the table of all policies."""

__all__: list[str] = []
