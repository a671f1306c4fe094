"""`pcli top`: the page, its rows, and its sources (captures and brokers)."""

__all__: list[str] = []
