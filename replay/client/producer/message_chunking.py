"""Messages that are too large for one entry.

Rules of this file (ProducerImpl.sendAsync, serializeAndSendMessage; 4.2.4)
1. Only a message that goes into no batch is cut, and only on a persistent topic. It is compressed as a whole first;
   each chunk is encrypted by itself.
2. A chunk has at most the largest message that the broker takes, less the metadata as they are before they know of
   chunks, and at most ``chunkMaxMessageSize``. What chunks add to the metadata is not counted: the broker has room
   above its limit for that.
3. All chunks share a sequence id and the uuid ``<producer name>-<sequence id>``, and name the size of the compressed
   message. What fits into one entry is no chunk.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.proto import pb

__all__ = ["chunk_size", "cut"]


def chunk_size(largest: int, metadata: pb.MessageMetadata, chunk_max_message_size: int) -> int:
    """Bytes of a chunk; 0 or less: the metadata alone are too large. ``largest``: bytes of the largest message."""
    size = largest - metadata.ByteSize()
    return min(size, chunk_max_message_size) if chunk_max_message_size > 0 else size


def cut(metadata: pb.MessageMetadata, payload: bytes, size: int) -> Iterator[bytes]:
    """The chunks of a payload, or the payload itself when it fits ``size``; ``metadata`` is written for each."""
    count = max(1, -(-len(payload) // size))
    if count == 1:
        yield payload
        return
    metadata.uuid = f"{metadata.producer_name}-{metadata.sequence_id}"
    metadata.num_chunks_from_msg = count
    metadata.total_chunk_msg_size = len(payload)
    for index in range(count):
        metadata.chunk_id = index
        yield payload[index * size : (index + 1) * size]
