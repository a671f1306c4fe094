"""Dead letters that clients send in batches."""

from __future__ import annotations

import pytest

from pcli.codec.payload.batch import join_batch
from pcli.codec.proto import pb

HASHES = {"entry_hash_min": 0, "entry_hash_max": 65535}


@pytest.mark.parametrize(("metadata", "count"), [(HASHES, 2), ({}, 0)])
def test_a_batch_whose_messages_alone_have_the_origin(make_scene, metadata, count):
    """V5 clients write the origin of a batched dead letter into its message only; other payloads are not searched."""
    scene = make_scene()
    client = scene.actor()
    client.subscribe(kind="Shared")
    client.flow()
    client.producer()
    for number in range(2):
        client.publish(number)
    client.producer("persistent://public/default/dead", producer_id=2)
    letters = []
    for one in client.messages:
        origin = {"ORIGIN_MESSAGE_ID": f"{one.message_id.ledgerId}:{one.message_id.entryId}:-1"}
        values = origin | {"REAL_TOPIC": "persistent://public/default/t", "REAL_SUBSCRIPTION": "s"}
        pairs = [pb.KeyValue(key=name, value=value) for name, value in values.items()]
        letters.append((pb.SingleMessageMetadata(properties=pairs), b"m"))
    client.publish(0, producer_id=2, payload=join_batch(letters), num_messages_in_batch=2, **metadata)
    topic = scene.tracker.subscriptions.lifecycles.topics["persistent://public/default/t"]
    assert topic.subscriptions["s"].record.dead_lettered.count == count
