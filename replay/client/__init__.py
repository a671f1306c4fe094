"""A Pulsar client: an engine without I/O that follows the 4.2.4 Java client, and the asyncio client that runs it.

Import names from their modules, so that a program that only produces does not load the consumer.

- engine.py: events in, actions out (actions.py); asyncio_client.py runs it on sockets
- connection: connections (Java's ClientCnx), the pool, lookup, reconnects
- producer, consumer: the handlers on connections; their settings are in settings.py
- scalable: producers and consumers of scalable topics, as of the V5 Java client 5.0.1
- backoff.py, periodic_tasks.py, wait_for_all.py, random_names.py, message_ids.py: helpers of connections, producers and
  consumers
"""

__all__: list[str] = []
