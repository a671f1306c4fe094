"""The hot path: the five commands of which traffic consists, read and written without protobuf.

Rules of this file
1. `pull_x` reads the command bytes (without the frame's two lengths) into a plain tuple of ints; `push_x` writes a
   whole frame. Both are held against protobuf by tests, on every frame of the corpus.
2. A command with anything unusual in it (a transaction, a chunk, bit sets, properties, unknown fields, another order
   of type and body, an id given twice, a number too large for its field) is None here: the caller then takes the full
   way through ``Frame.command``. A hot path that knows everything is no longer hot.
3. Ids come back as they are on the wire (unsigned); only ``partition``, an int32, is made signed: -1 travels as ten
   bytes.

Tags are ``field number << 3 | wire type``; all numbers of these commands are below 16, so a tag is one byte.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import google_crc32c

from pcli.codec.wire.commands import BY_NAME
from pcli.codec.wire.constants import CHECKSUM_MAGIC

__all__ = [
    "pull_ack",
    "pull_first_id",
    "pull_flow",
    "pull_ids",
    "pull_long",
    "pull_message",
    "pull_send",
    "pull_send_receipt",
    "push_ack",
    "push_flow",
    "push_message",
    "push_send",
    "push_send_receipt",
    "push_varint",
]

_two_lengths = Struct(">II").pack
_headers = Struct(">HII").pack
_u32 = Struct(">I").pack
_crc32c = google_crc32c.value
_extend = google_crc32c.extend

# The tag of each body: the field has the number of the command's type.
_SEND: Final = BY_NAME["SEND"].number << 3 | 2
_SEND_RECEIPT: Final = BY_NAME["SEND_RECEIPT"].number << 3 | 2
_MESSAGE: Final = BY_NAME["MESSAGE"].number << 3 | 2
_ACK: Final = BY_NAME["ACK"].number << 3 | 2
_FLOW: Final = BY_NAME["FLOW"].number << 3 | 2

# How a command of each begins: field 1 with the type, the body's tag.
_OPEN_SEND: Final = bytes((8, _SEND >> 3, _SEND))
_OPEN_SEND_RECEIPT: Final = bytes((8, _SEND_RECEIPT >> 3, _SEND_RECEIPT))
_OPEN_MESSAGE: Final = bytes((8, _MESSAGE >> 3, _MESSAGE))
_OPEN_ACK: Final = bytes((8, _ACK >> 3, _ACK))
_OPEN_FLOW: Final = bytes((8, _FLOW >> 3, _FLOW))

_INT32: Final = 0x7FFFFFFF
_UINT32: Final = 0xFFFFFFFF
_INT64: Final = 0xFFFFFFFFFFFFFFFF
_MINUS_INT32: Final = _INT64 - _INT32
"""-2^31 as it travels in an int32: ten bytes."""


def pull_long(data: bytes, position: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte, above 127, has been read; position is behind that byte."""
    second = data[position]
    if second < 128:
        return first & 127 | second << 7, position + 1
    third = data[position + 1]
    if third < 128:
        return first & 127 | (second & 127) << 7 | third << 14, position + 2
    value = first & 127 | (second & 127) << 7 | (third & 127) << 14
    position += 2
    shift = 21
    while True:
        byte = data[position]
        position += 1
        if byte < 128:
            value |= byte << shift
            if value > _INT64:
                raise IndexError  # more than 64 bits: unusual, like running out of bytes
            return value, position
        value |= (byte & 127) << shift
        shift += 7
        if shift > 63:
            raise IndexError  # a varint of more than ten bytes: unusual, like running out of bytes


def _body(data: bytes, start: int, end: int, tag: int) -> int:
    """Where the body begins, if the command is type, body and nothing else; -1 otherwise."""
    if data[start] != 8 or data[start + 2] != tag:
        return -1
    size = data[start + 3]
    position = start + 4
    if size > 127:
        size, position = pull_long(data, position, size)
    return position if position + size == end else -1


def pull_ids(frame: bytes, tag: int) -> tuple[int, int]:
    """The first two numbers of a whole frame's body, when they are its fields 1 and 2; -1 for one that is not.

    Producer and sequence id of SEND and SEND_RECEIPT (``tag`` 0x32, 0x3a), in a third of the time that the whole takes.
    Only what stands as every known encoder writes it is read; -1 means no more than: look properly.
    """
    try:
        # 8 bytes of lengths, 08 type, the body's tag, its size below 128, 08 first, 10 second
        first = frame[13]
        if frame[10] != tag or frame[11] > 127 or frame[12] != 8 or first > 127:
            return -1, -1
        if frame[14] != 16:
            return first, -1
        second = frame[15]
        if second > 127:
            third = frame[16]
            second = second & 127 | third << 7 if third < 128 else pull_long(frame, 16, second)[0]
    except IndexError:
        return -1, -1
    return first, second


def pull_first_id(frame: bytes, tag: int) -> int:
    """The same for the first number alone: the consumer id of MESSAGE, ACK and FLOW (0x4a, 0x52, 0x5a)."""
    if len(frame) > 13 and frame[10] == tag and frame[11] < 128 and frame[12] == 8 and frame[13] < 128:
        return frame[13]
    return -1


def _message_id(data: bytes, position: int, end: int) -> tuple[int, int, int, int] | None:
    """Ledger, entry, partition, batch index of the MessageIdData at data[position:end]."""
    ledger = entry = partition = batch = -1
    while position < end:
        tag = data[position]
        value = data[position + 1]
        position += 2
        if value > 127:
            value, position = pull_long(data, position, value)
        if tag == 8:
            ledger = value
        elif tag == 16:
            entry = value
        elif tag == 24:
            if value > _INT32:
                if value < _MINUS_INT32:
                    return None
                value -= 1 << 64
            partition = value
        elif tag == 32:
            if value > _INT32:
                if value < _MINUS_INT32:
                    return None
                value -= 1 << 64
            batch = value
        else:
            return None
    return None if ledger < 0 or entry < 0 or position != end else (ledger, entry, partition, batch)


def pull_send(data: bytes, start: int, end: int) -> tuple[int, int, int, int] | None:
    """SEND: producer id, sequence id, number of messages, highest sequence id (the last two -1: not given)."""
    try:
        position = _body(data, start, end, _SEND)
        if position < 0:
            return None
        producer = sequence = -1
        count = highest = -1
        while position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 127:
                value, position = pull_long(data, position, value)
            if tag == 8:
                producer = value
            elif tag == 16:
                sequence = value
            elif tag == 24:
                count = value
            elif tag == 48:
                highest = value
            else:
                return None
    except IndexError:
        return None
    if producer < 0 or sequence < 0 or count > _INT32 or position != end:
        return None
    return producer, sequence, count, highest


def pull_send_receipt(data: bytes, start: int, end: int) -> tuple[int, int, int, int, int] | None:
    """SEND_RECEIPT: producer id, sequence id, ledger, entry, highest sequence id (-1: not given)."""
    try:
        position = _body(data, start, end, _SEND_RECEIPT)
        if position < 0:
            return None
        producer = sequence = highest = -1
        found = None
        while position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 127:
                value, position = pull_long(data, position, value)
            if tag == 8:
                producer = value
            elif tag == 16:
                sequence = value
            elif tag == 26 and found is None:
                found = _message_id(data, position, position + value)
                if found is None:
                    return None
                position += value
            elif tag == 32:
                highest = value
            else:
                return None
    except IndexError:
        return None
    if found is None or found[2] != -1 or found[3] != -1 or producer < 0 or sequence < 0 or position != end:
        return None
    return producer, sequence, found[0], found[1], highest


def pull_message(data: bytes, start: int, end: int) -> tuple[int, int, int, int, int] | None:
    """MESSAGE: consumer id, ledger, entry, partition (-1: none), redelivery count (-1: not given)."""
    try:
        position = _body(data, start, end, _MESSAGE)
        if position < 0:
            return None
        consumer = redeliveries = -1
        found = None
        while position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 127:
                value, position = pull_long(data, position, value)
            if tag == 8:
                consumer = value
            elif tag == 18 and found is None:
                found = _message_id(data, position, position + value)
                if found is None:
                    return None
                position += value
            elif tag == 24:
                redeliveries = value
            else:
                return None
    except IndexError:
        return None
    if found is None or found[3] != -1 or consumer < 0 or redeliveries > _UINT32 or position != end:
        return None
    return consumer, found[0], found[1], found[2], redeliveries


def pull_ack(data: bytes, start: int, end: int) -> tuple[int, int, list[tuple[int, int, int, int]], int] | None:
    """ACK: consumer id, ack type (1: cumulative), ids as (ledger, entry, partition, batch), request id (-1: none)."""
    try:
        position = _body(data, start, end, _ACK)
        if position < 0:
            return None
        consumer = kind = request = -1
        ids = []
        while position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 127:
                value, position = pull_long(data, position, value)
            if tag == 8:
                consumer = value
            elif tag == 16:
                kind = value
            elif tag == 26:
                found = _message_id(data, position, position + value)
                if found is None:
                    return None
                ids.append(found)
                position += value
            elif tag == 64:
                request = value
            else:
                return None
    except IndexError:
        return None
    return None if consumer < 0 or kind not in (0, 1) or position != end else (consumer, kind, ids, request)


def pull_flow(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    """FLOW: consumer id, permits (messages)."""
    try:
        position = _body(data, start, end, _FLOW)
        if position < 0:
            return None
        consumer = permits = -1
        while position < end:
            tag = data[position]
            value = data[position + 1]
            position += 2
            if value > 127:
                value, position = pull_long(data, position, value)
            if tag == 8:
                consumer = value
            elif tag == 16:
                permits = value
            else:
                return None
    except IndexError:
        return None
    return None if consumer < 0 or permits < 0 or permits > _UINT32 or position != end else (consumer, permits)


_ONE = [bytes([value]) for value in range(128)]


def push_varint(value: int) -> bytes:
    """A varint; negative numbers as the 64-bit two's complement, ten bytes, as protobuf has it."""
    if 0 <= value < 1 << 21:
        if value < 128:
            return _ONE[value]
        if value < 1 << 14:
            return bytes((value & 127 | 128, value >> 7))
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _push_id(ledger: int, entry: int, partition: int) -> bytes:
    """A MessageIdData; the partition is left out at -1, its default."""
    body = b"\x08" + push_varint(ledger) + b"\x10" + push_varint(entry)
    return body if partition < 0 else body + b"\x18" + push_varint(partition)


def _push_simple(head: bytes, body: bytes) -> bytes:
    """A frame of type and body; head is the type's two bytes and the body's tag."""
    command = head + push_varint(len(body)) + body
    return _two_lengths(len(command) + 4, len(command)) + command


def push_send_receipt(producer_id: int, sequence_id: int, ledger: int, entry: int, highest_sequence_id: int) -> bytes:
    """A SEND_RECEIPT frame. Ledger and entry -1: a duplicate. The highest sequence id is always written."""
    place = _push_id(ledger, entry, -1)
    return _push_simple(
        _OPEN_SEND_RECEIPT,
        b"".join((
            b"\x08", push_varint(producer_id), b"\x10", push_varint(sequence_id),
            b"\x1a", push_varint(len(place)), place, b"\x20", push_varint(highest_sequence_id),
        )),
    )  # fmt: skip


def push_message(
    consumer_id: int, ledger: int, entry: int, partition: int, redelivery_count: int, headers_and_payload: bytes
) -> bytes:
    """A MESSAGE frame around an entry as it was stored: [broker entry block] [checksum block] metadata, payload."""
    place = _push_id(ledger, entry, partition)
    body = b"".join((b"\x08", push_varint(consumer_id), b"\x12", push_varint(len(place)), place))
    if redelivery_count:
        body += b"\x18" + push_varint(redelivery_count)
    command = _OPEN_MESSAGE + push_varint(len(body)) + body
    lengths = _two_lengths(len(command) + 4 + len(headers_and_payload), len(command))
    return b"".join((lengths, command, headers_and_payload))


def push_send(
    producer_id: int, sequence_id: int, num_messages: int, highest_sequence_id: int, metadata: bytes, payload: bytes
) -> bytes:
    """A SEND frame with checksum. ``num_messages`` 1 and ``highest_sequence_id`` 0, the defaults, are left out."""
    body = b"".join((b"\x08", push_varint(producer_id), b"\x10", push_varint(sequence_id)))
    if num_messages != 1:
        body += b"\x18" + push_varint(num_messages)
    if highest_sequence_id:
        body += b"\x30" + push_varint(highest_sequence_id)
    command = _OPEN_SEND + push_varint(len(body)) + body
    checked = _extend(_crc32c(_u32(len(metadata)) + metadata), payload)
    total = 4 + len(command) + 10 + len(metadata) + len(payload)
    headers = _headers(CHECKSUM_MAGIC, checked, len(metadata))
    return b"".join((_two_lengths(total, len(command)), command, headers, metadata, payload))


def push_ack(consumer_id: int, ack_type: int, ids: list[tuple[int, int, int, int]], request_id: int = -1) -> bytes:
    """An ACK frame; ids as (ledger, entry, partition, batch), -1 left out; request id -1: no answer wanted."""
    out = [b"\x08", push_varint(consumer_id), b"\x10", _ONE[ack_type]]
    for ledger, entry, partition, batch in ids:
        place = _push_id(ledger, entry, partition)
        if batch >= 0:
            place += b"\x20" + push_varint(batch)
        out += (b"\x1a", push_varint(len(place)), place)
    if request_id >= 0:
        out += (b"\x40", push_varint(request_id))
    return _push_simple(_OPEN_ACK, b"".join(out))


def push_flow(consumer_id: int, permits: int) -> bytes:
    """A FLOW frame."""
    return _push_simple(_OPEN_FLOW, b"\x08" + push_varint(consumer_id) + b"\x10" + push_varint(permits))
