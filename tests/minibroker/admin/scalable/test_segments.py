"""The effects of requests on single segments."""

from __future__ import annotations

from pcli.codec.proto import pb

SEGMENT = "/admin/v2/segments/public/default/orders/0000-ffff-0"
NAME = "segment://public/default/orders/0000-ffff-0"


def test_clients_prevent_a_deletion(make_rest):
    world, rest = make_rest(version="5.0.1")
    rest("PUT", SEGMENT, ["sub"])
    client = world.client()
    client.producer(NAME)
    client.subscribe(NAME)
    answer = rest("DELETE", f"{SEGMENT}/subscription/sub")
    assert (answer.status, b"Subscription has active consumers" in answer.data) == (500, True)
    answer = rest("DELETE", SEGMENT)
    text = b"Topic has 2 clients connected Including 1 consumers, 1 producers, and 0 replicators."
    assert (answer.status, text in answer.data) == (500, True)
    assert client.hear() == []
    assert rest("DELETE", f"{SEGMENT}?force=true").status == 204
    assert {type(body) for body in client.hear()} == {pb.CommandCloseProducer, pb.CommandCloseConsumer}


def test_a_deleted_segment_of_a_layout_is_created_again_by_its_clients(make_rest):
    """A segment that no layout has is not."""
    world, rest = make_rest(version="5.0.1")
    rest("PUT", "/admin/v2/scalable/public/default/orders")
    rest("DELETE", SEGMENT)
    client = world.client()
    assert isinstance(client.producer(NAME), pb.CommandProducerSuccess)
    assert client.producer(NAME[:-1] + "7", 2).error == pb.TopicNotFound
