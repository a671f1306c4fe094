"""The tracked state under the names of `pulsar-admin topics stats`, as plain values."""

__all__: list[str] = []
