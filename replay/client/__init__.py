"""The client's side of Pulsar as a pure engine, after the rules of the 4.2.4 Java client; and one thin shell.

Names are imported from their modules: who only produces loads no consumer.

- the engine: engine (turns in, actions out), actions, settings, memory, refusal (why something did not come to be),
  chance, gathering, repeating
- connections: link (one of them), requests, pool (all of them), hosts (of the service URL), lookup, http_lookup
- what lives on them: handler (found, kept, found again), backoff, watch (topics that come and go)
- producer, partitioned_producer, producer_settings: registration, routing, duplicates (sequence ids), outgoing,
  batch_container, key_based_batches, batch_timer, chunking, entries, pending, outbox
- consumer, zero_queue_consumer, multi_topics_consumer, pattern_consumer, reader, consumer_settings: consumer_checks,
  subscribe_command, receiver_queue, topics_queue, reception, incoming, ids, chunk_buffer, ack_grouping,
  unacked_tracker, negative_acks, redelivery, redelivery_backoff, dead_letters, letter_topics, seeking, last_message,
  patience
- shell (sockets, clock, loop): connect_errors, fetching
"""

__all__: list[str] = []
