"""A broker that responds to every SEND and stores nothing, to measure the maximum rate of a load generator.

python bench/sink.py PORT
"""

from __future__ import annotations

import asyncio
import sys

from pcli.codec.proto import pb
from pcli.codec.wire import FrameReader, push_frame
from pcli.codec.wire.hot import pull_send, push_send_receipt
from pcli.minibroker.server.tcp_server import new_event_loop

SEND = pb.BaseCommand.SEND


class Sink(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up a new connection."""
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.reader = FrameReader()
        self.entries = 0

    def data_received(self, data: bytes) -> None:
        """Respond to all complete frames with one write."""
        out = []
        for frame in self.reader.feed(data):
            if frame.type == SEND:
                send = pull_send(frame.data, 8, frame.parts.command_end)
                assert send is not None
                out.append(push_send_receipt(send[0], send[1], 1, self.entries, 0))
                self.entries += 1
            else:
                out.append(self.response(frame.command))
        self.transport.write(b"".join(out))

    def response(self, command: pb.BaseCommand) -> bytes:
        """Return the response that a client requires before it sends; empty if none."""
        if command.HasField("connect"):
            return push_frame(pb.CommandConnected(server_version="sink", protocol_version=21, max_message_size=5242880))
        if command.HasField("partitionMetadata"):
            request_id = command.partitionMetadata.request_id
            return push_frame(
                pb.CommandPartitionedTopicMetadataResponse(request_id=request_id, partitions=0, response=0)
            )
        if command.HasField("lookupTopic"):
            host, port = self.transport.get_extra_info("sockname")
            return push_frame(
                pb.CommandLookupTopicResponse(
                    request_id=command.lookupTopic.request_id,
                    brokerServiceUrl=f"pulsar://{host}:{port}",
                    response=pb.CommandLookupTopicResponse.Connect,
                    authoritative=True,
                )
            )
        if command.HasField("producer"):
            request_id = command.producer.request_id
            return push_frame(pb.CommandProducerSuccess(request_id=request_id, producer_name="p", last_sequence_id=-1))
        if command.HasField("ping"):
            return push_frame(pb.CommandPong())
        if command.HasField("close_producer"):
            return push_frame(pb.CommandSuccess(request_id=command.close_producer.request_id))
        return b""


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


loop = new_event_loop()
asyncio.set_event_loop(loop)
loop.run_until_complete(main())
