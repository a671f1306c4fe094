"""What is inside an entry: compression, batches, chunks, encryption, schemas.

- ``entry``            from the payload of a SEND or MESSAGE to the messages of the application: begin here
- ``compression``      LZ4, ZLIB, ZSTD, SNAPPY, both ways, bounded
- ``batch``            messages out of a batch, and into one
- ``chunks``           large messages joined across frames
- ``encryption``       payloads opened with given private keys
- ``schemas``          values read with the schemas that the capture shows; ``primitives``, ``json_text``, ``avro``
                       and ``protobuf_native`` are its kinds; ``texts``: strings that are no UTF-8
"""

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
