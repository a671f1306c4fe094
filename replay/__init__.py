"""Programs that exchange live traffic: clients, players, proxies, and sources of captures.

Import names from their modules, so that clients and proxies do not load the readers of captures.

- ``sources``       captures from files, folders, stdin and interfaces, and the recording of live traffic
- ``client``        a client that sends the same commands as the Java client
- ``player``        replays of captures against a live broker
- ``proxy``         a tap between clients and brokers
- ``conversation``, ``expectations``  the helpers of tests that `pcli reproduce` writes
- ``scapy_layer``   a ``Pulsar`` layer for scapy
- ``service_url``   service URLs, tokens, TLS
- ``event_loop``    the event loop and clock of all modules that use sockets
"""

__all__: list[str] = []
