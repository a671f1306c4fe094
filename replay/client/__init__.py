"""A Pulsar client as a pure engine that follows the 4.2.4 Java client, and its asyncio shell.

Import names from their modules: a program that only produces does not load the consumer.

- engine.py: turns in, actions out (actions.py); asyncio_client.py runs it on sockets
- connection: one connection (Java's ClientCnx), the pool, lookup, reconnects
- producer, consumer: what lives on connections; their settings are in producer_settings.py and consumer_settings.py
- backoff.py, periodic_tasks.py, wait_for_all.py, random_names.py, message_ids.py: shared by both
"""

__all__: list[str] = []
