"""Rule chunk-resent: chunks that were sent twice."""

import pytest


def test_a_resent_chunk(evaluate, producer, counted):
    one = producer(chunks_resent=counted(2, 20, 21, sample="u chunk 0"), ends={"reset_broker": counted(1, 9)})
    [found] = evaluate("chunk-resent", one)
    assert (found.severity, found.culprit, found.certainty, found.frames) == ("warning", "network", "certain", [20, 21])


def test_no_finding(evaluate, producer):
    assert evaluate("chunk-resent", producer()) == []


@pytest.mark.parametrize(("cut", "count"), [(2, 1), (3, 0)])
def test_a_connection_that_breaks_between_chunks(make_scene, diagnose, cut, count):
    """After two of three chunks the client starts again; after all three it has nothing to resend."""
    scene = make_scene()
    about = {"uuid": "u", "num_chunks_from_msg": 3, "total_chunk_msg_size": 9}
    client = scene.actor()
    client.producer()
    for chunk in range(cut):
        client.publish(0, chunk_id=chunk, **about)
    client.cut(reset=True)
    scene.wait(50)
    client = scene.actor()
    client.producer()
    for chunk in range(3 if cut < 3 else 0):
        client.publish(0, chunk_id=chunk, **about)
    client.publish(1)
    assert len(diagnose(scene, ("chunk-resent",)).findings()) == count


@pytest.mark.parametrize("name", ["go/chunks", "java/chunks-interleaved", "python/07-chunked"])
def test_interleaved_chunks_of_several_messages(diagnosed, name):
    assert diagnosed(name, "chunk-resent") == []
