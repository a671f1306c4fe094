"""A broker that delays its output by a latency."""

import time
import urllib.request

from pcli.codec.proto import pb
from pcli.minibroker import MiniBroker


def test_a_latency_delays_frames_and_http_responses_in_order(connect):
    with MiniBroker(latency="40ms", max_log=0) as broker:
        peer = connect(broker)
        peer.produce()
        start = time.monotonic()
        for sequence_id in range(3):
            peer.send(sequence_id=sequence_id)
        receipts = [peer.hear(pb.CommandSendReceipt).sequence_id for _ in range(3)]
        sent = time.monotonic()
        with urllib.request.urlopen(f"{broker.http_url}/admin/v2/clusters") as response:
            assert response.status == 200
        assert receipts == [0, 1, 2]
        assert sent - start >= 0.04
        assert time.monotonic() - sent >= 0.04


def test_a_client_that_disconnects_within_the_latency(connect):
    with MiniBroker(latency="40ms") as broker:
        connect(broker).produce()
        gone = connect(broker)
        gone.say(pb.CommandPing())
        gone.socket.close()
        broker.wait_until(lambda b: len(b.connections) == 1)
        assert connect(broker).ask(pb.CommandPong, pb.CommandPing()) == pb.CommandPong()
        assert broker.failures == []
