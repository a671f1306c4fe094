"""Scalable topics (``topic://``): a producer, and stream, queue and checkpoint consumers, as of the V5 Java client.

- layout_session.py: the session in which the broker reports the layout of a topic
- scalable_producer.py, segment_producer.py: one producer for each segment, and the route of messages
- scalable_consumer.py: the consumers of segments; queue_consumer.py, stream_consumer.py, checkpoint_consumer.py
- controller_session.py: the registration of a stream consumer, and its assignments
"""

__all__: list[str] = []
