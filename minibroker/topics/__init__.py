"""Topics and their subscriptions, producers and consumers, with the limits and policies that apply to them."""

__all__: list[str] = []
