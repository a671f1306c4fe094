"""A tap in the middle: between clients and brokers that know nothing of it.

- ``doors``        where each broker is found at the proxy
- ``rewriting``    the frames, and the HTTP answers, that name brokers
- ``passage``      one direction of bytes, of which only such frames are looked at
- ``opening``      a client's first frame, which may name the broker that it wants
- ``byte_faults``  a bad line on purpose: latency, bandwidth, slices, resets
- ``lane``         what is on its way to one side, and waits for its time
- ``relay``        two sockets, and what passes between them
- ``listener``     where clients come
- ``lookups``      the same for HTTP
- ``api``          all of it in a thread: ``with Proxy(to=...) as proxy``

Up to ``byte_faults`` all is pure: bytes and given times.
"""

from pcli.replay.proxy.api import Proxy
from pcli.replay.proxy.byte_faults import ByteFault

__all__ = ["ByteFault", "Proxy"]
