"""The history of one object of a capture: a consumer, producer, subscription, topic, connection or message.

- object_names.py: the names by which an object is found; collector.py: finds the object and collects its history
- event_log.py: events in bounded memory, and the selection of the most important events
- consumer_history.py, producer_history.py, subscription_history.py, topic_history.py, connection_history.py,
  message_history.py: one class for each kind of object
- related_findings.py: the findings that concern the object
"""

__all__: list[str] = []
