"""A tap between clients and brokers, invisible to both.

- ``broker_addresses``   the address of each broker at the proxy
- ``address_rewriting``  the frames, and the HTTP responses, that contain broker addresses
- ``frame_filter``       one direction of bytes, of which only such frames are decoded
- ``first_frame``        a client's first frame, which may name the broker
- ``byte_faults``        latency, bandwidth limits, slices, resets
- ``delayed_output``     bytes that wait for their time
- ``relay``              the two sockets of one client, and the bytes between them
- ``listener``           the listening sockets
- ``http_lookups``       the same for HTTP
- ``api``                all of it in a thread: ``with Proxy(to=...) as proxy``

The modules up to ``byte_faults`` are pure: bytes and given times.
"""

from pcli.replay.proxy.api import Proxy
from pcli.replay.proxy.byte_faults import ByteFault

__all__ = ["ByteFault", "Proxy"]
