"""The order of keys while consumers of a Key_Shared subscription leave, compared with the mini-broker."""

from __future__ import annotations

from typing import Any

import pytest

from pcli.codec.capture.frames import StreamEnd


@pytest.mark.parametrize(("ended", "broken"), [("before", 0), ("after", 3)])
def test_keys_of_a_consumer_whose_client_has_sent_a_fin(make_scene: Any, ended: str, broken: int) -> None:
    """The broker delivers the entries of the consumer to another one before it sends its own FIN."""
    play = make_scene()
    client, other = play.actor(), play.actor()
    client.producer()
    client.subscribe(kind="Key_Shared")
    client.flow(10)
    for number in range(3):
        client.publish(number, partition_key="k")
    other.subscribe(consumer_id=2, kind="Key_Shared")
    other.flow(10, consumer_id=2)
    play.wait(10)
    fin_ns = play.now * 1_000_000
    client.closed = True  # the scene does not report the end
    play.disconnect(client)
    assert len(other.messages) == 3
    [topic] = play.tracker.subscriptions.lifecycles.topics.values()
    record = topic.record.subscriptions["s"]
    assert (record.order_broken.count, len(record.order_broken.frames)) == (3, 3)
    if ended == "after":
        play.wait(10)
        fin_ns = play.now * 1_000_000
    how = {"from_client": True, "reset": False, "refused": False, "silent": False}
    play.tracker.ended(StreamEnd(client.stream, 1, fin_ns, **how))
    [key] = [one for group, one in play.tracker.records() if group == "key"]
    assert (record.order_broken.count, len(record.order_broken.frames)) == (broken, broken)
    assert (key.open_at_two.count, key.moved.count) == (broken, 1)
