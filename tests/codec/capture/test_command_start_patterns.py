"""The patterns of command starts match what protobuf encodes."""

from __future__ import annotations

from pcli.codec.capture.command_start_patterns import HEAD_SIZE, PATTERNS, TAGS, legal_types
from pcli.codec.proto import pb
from pcli.codec.wire.commands import COMMANDS


def test_every_command_starts_with_its_type_and_body_tag():
    for number, row in COMMANDS.items():
        command = pb.BaseCommand(type=number)
        getattr(command, row.field).SetInParent()
        assert command.SerializePartialToString().startswith(b"\x08" + bytes([number]) + TAGS[number]), row.name


def test_patterns_distinguish_the_sides(w):
    frames = {True: [w.send(1), w.ack(1), w.connect], False: [w.receipt(1), w.message(1), w.connected]}
    for side, own in frames.items():
        for frame in own:
            assert PATTERNS[side].match(frame)
            assert not PATTERNS[not side].match(frame)
            assert PATTERNS[None].match(frame)
    assert PATTERNS[True].match(w.ping)
    assert PATTERNS[False].match(w.ping)


def test_no_frame_is_shorter_than_head_size(w):
    assert len(w.ping) >= HEAD_SIZE
    assert legal_types(True) | legal_types(False) == legal_types(None) == frozenset(COMMANDS)
