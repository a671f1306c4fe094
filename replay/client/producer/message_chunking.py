"""Chunks of messages that are too large for one entry.

Rules of this file (ProducerImpl.sendAsync, serializeAndSendMessage; 4.2.4)
1. Only messages that are not batched are chunked, and only on persistent topics. The message is compressed as a whole;
   each chunk is encrypted separately.
2. A chunk has at most the broker's maximum message size minus the metadata without chunk fields, and at most
   ``chunkMaxMessageSize``. The chunk fields are not counted, because brokers accept a few bytes above their limit.
3. All chunks have the same sequence id, the uuid ``<producer name>-<sequence id>`` and the size of the compressed
   message. A message that fits into one entry is not chunked.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcli.codec.proto import pb

__all__ = ["chunk_size", "cut"]


def chunk_size(largest: int, metadata: pb.MessageMetadata, chunk_max_message_size: int) -> int:
    """Return the size of a chunk.

    It is 0 or less if the metadata alone exceeds ``largest``, the maximum message size.
    """
    size = largest - metadata.ByteSize()
    return min(size, chunk_max_message_size) if chunk_max_message_size > 0 else size


def cut(metadata: pb.MessageMetadata, payload: bytes, size: int) -> Iterator[bytes]:
    """Yield the chunks of a payload, or the payload itself if it fits.

    The fields of each chunk are set in ``metadata``.
    """
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
