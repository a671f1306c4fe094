"""Transactions: the coordinators, the transactions of a topic, and the pending acknowledgements of a subscription."""

__all__: list[str] = []
