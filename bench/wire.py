"""Benchmark of the wire layer against plain protobuf: frames per second, decoded and encoded.

    python bench/wire.py

Each row: the hot path, the same with plain protobuf (generated code, attribute by attribute), and their ratio.
CPU time of this process, best of five rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from struct import Struct

from pcli.codec.proto import pb
from pcli.codec.wire import FrameReader, hot
from pcli.codec.wire.build import push_entry, push_frame

ROUNDS, FRAMES = 5, 20_000

METADATA = pb.MessageMetadata(producer_name="standalone-0-1", sequence_id=7, publish_time=1_700_000_000_000)
PACKED = METADATA.SerializeToString()
PAYLOAD = b"x" * 200
ENTRY = push_entry(METADATA, PAYLOAD)
PLACE = pb.MessageIdData(ledgerId=12345, entryId=678)
_u32 = Struct(">I").unpack_from

SEND = push_frame(pb.CommandSend(producer_id=3, sequence_id=100_000), ENTRY)
ACK = push_frame(pb.CommandAck(consumer_id=3, ack_type=0, message_id=[PLACE]))
FLOW = push_frame(pb.CommandFlow(consumer_id=3, messagePermits=500))


def command_of(frame: bytes) -> pb.BaseCommand:
    return pb.BaseCommand.FromString(frame[8 : 8 + _u32(frame, 4)[0]])


def hot_read(pull: Callable[[bytes, int, int], object], frame: bytes) -> Callable[[], object]:
    return lambda: pull(frame, 8, 8 + _u32(frame, 4)[0])


def read_send() -> object:
    send = command_of(SEND).send
    return send.producer_id, send.sequence_id, send.num_messages, send.highest_sequence_id


def read_ack() -> object:
    ack = command_of(ACK).ack
    ids = [(one.ledgerId, one.entryId, one.partition, one.batch_index) for one in ack.message_id]
    return ack.consumer_id, ack.ack_type, ids, ack.request_id


def read_flow() -> object:
    flow = command_of(FLOW).flow
    return flow.consumer_id, flow.messagePermits


CASES: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
    ("read SEND", hot_read(hot.pull_send, SEND), read_send),
    ("read ACK", hot_read(hot.pull_ack, ACK), read_ack),
    ("read FLOW", hot_read(hot.pull_flow, FLOW), read_flow),
    (
        "write SEND",
        lambda: hot.push_send(3, 100_000, 1, 0, PACKED, PAYLOAD),
        lambda: push_frame(pb.CommandSend(producer_id=3, sequence_id=100_000), push_entry(PACKED, PAYLOAD)),
    ),
    (
        "write SEND_RECEIPT",
        lambda: hot.push_send_receipt(3, 100_000, 12345, 678, 0),
        lambda: push_frame(
            pb.CommandSendReceipt(
                producer_id=3, sequence_id=100_000, message_id=pb.MessageIdData(ledgerId=12345, entryId=678)
            )
        ),
    ),
    (
        "write MESSAGE",
        lambda: hot.push_message(3, 12345, 678, -1, 0, ENTRY),
        lambda: push_frame(
            pb.CommandMessage(consumer_id=3, message_id=pb.MessageIdData(ledgerId=12345, entryId=678)), ENTRY
        ),
    ),
    (
        "write ACK",
        lambda: hot.push_ack(3, 0, [(12345, 678, -1, -1)]),
        lambda: push_frame(
            pb.CommandAck(consumer_id=3, ack_type=0, message_id=[pb.MessageIdData(ledgerId=12345, entryId=678)])
        ),
    ),
    (
        "write FLOW",
        lambda: hot.push_flow(3, 500),
        lambda: push_frame(pb.CommandFlow(consumer_id=3, messagePermits=500)),
    ),
]


def per_second(call: Callable[[], object]) -> float:
    best = 0.0
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(FRAMES):
            call()
        best = max(best, FRAMES / (time.process_time() - started))
    return best


def main() -> None:
    print(f"{'':20} {'hot path':>12} {'protobuf':>12} {'ratio':>7}   (frames per second of one core)")
    for name, fast, plain in CASES:
        ours, theirs = per_second(fast), per_second(plain)
        print(f"{name:20} {ours:12,.0f} {theirs:12,.0f} {ours / theirs:7.2f}")
    stream = (SEND + ACK + FLOW) * 200

    def cut() -> None:
        FrameReader().feed(stream)

    global FRAMES
    FRAMES = 20
    print(f"{'cut a stream':20} {per_second(cut) * 600:12,.0f}")


if __name__ == "__main__":
    main()
