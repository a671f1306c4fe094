"""The client side, and everything between two live peers.

Import names from their modules: clients and proxies do not load the readers of captures.

- ``sources``       captures from files, folders, stdin and interfaces; recording of live traffic
- ``client``        a client that sends what the Java client sends
- ``player``        replays of captures against a live broker
- ``proxy``         a tap between clients and brokers
- ``conversation``, ``expectations``  the helpers of tests that `pcli reproduce` writes
- ``scapy_layer``   a ``Pulsar`` layer for scapy
- ``service_url``   service URLs, tokens, TLS
- ``event_loop``    the loop and clock of everything with sockets
"""

__all__: list[str] = []
