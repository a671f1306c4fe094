"""A transparent proxy between clients and brokers.

- ``broker_addresses``   the address of each broker at the proxy
- ``address_rewriting``  rewriting of the frames and HTTP responses that contain broker addresses
- ``frame_filter``       decoding of only these frames in one direction of a stream
- ``first_frame``        a client's first frame, which may contain the broker's address
- ``byte_faults``        network faults: delays, bandwidth limits, slices, outages, ends of connections
- ``toxics``             byte faults in the JSON form of Toxiproxy
- ``delayed_output``     bytes that are delivered at a later time
- ``relay``              forwarding between the socket of one client and the socket of its broker
- ``listener``           the listening sockets
- ``http_lookups``       rewriting of lookups over HTTP
- ``control``            the control port, with the HTTP API of Toxiproxy
- ``api``                the proxy in a thread: ``with Proxy(to=...) as proxy``

The modules up to ``byte_faults`` do no I/O: their inputs are bytes and times.
"""

from pcli.replay.proxy.api import Proxy
from pcli.replay.proxy.byte_faults import ByteFault

__all__ = ["ByteFault", "Proxy"]
