"""The contents of an entry: compression, batches, chunks, encryption, schemas.

- ``entry``            from the payload of a SEND or MESSAGE to the application's messages; start with this module
- ``compression``      compression and bounded decompression with LZ4, ZLIB, ZSTD and SNAPPY
- ``batch``            splitting and building batches
- ``chunks``           assembly of large messages from the chunks in several frames
- ``encryption``       decryption of payloads with given private keys
- ``schemas``          decoding of values with the schemas in the capture, with ``primitives``, ``json_text``, ``avro``
                       and ``protobuf_native``
"""

from typing import TYPE_CHECKING

from pcli.codec.lazy_names import lazy_names

if TYPE_CHECKING:
    from pcli.codec.payload.batch import join_batch, split_batch
    from pcli.codec.payload.chunks import ChunkJoiner
    from pcli.codec.payload.compression import compress, decompress
    from pcli.codec.payload.encryption import PrivateKeys
    from pcli.codec.payload.entry import CHUNK, CLOSED, OPEN, SEALED, Entry, Message, open_entry
    from pcli.codec.payload.schemas import Decoder, SchemaBook, decode

__all__ = [
    "CHUNK",
    "CLOSED",
    "OPEN",
    "SEALED",
    "ChunkJoiner",
    "Decoder",
    "Entry",
    "Message",
    "PrivateKeys",
    "SchemaBook",
    "compress",
    "decode",
    "decompress",
    "join_batch",
    "open_entry",
    "split_batch",
]

__getattr__ = lazy_names(
    __name__,
    {
        "batch": "join_batch split_batch",
        "chunks": "ChunkJoiner",
        "compression": "compress decompress",
        "encryption": "PrivateKeys",
        "entry": "CHUNK CLOSED OPEN SEALED Entry Message open_entry",
        "schemas": "Decoder SchemaBook decode",
    },
)
