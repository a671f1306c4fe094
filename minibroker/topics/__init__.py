"""Topics with their subscriptions, producers and consumers, and the limits and policies of topics.

The modules topic, subscription, consumer, producer, publishing and dispatcher import each other (for types): a topic
has producers and subscriptions, a subscription has a dispatcher with consumers, and each of them refers to its owner.
"""

__all__: list[str] = []
