"""The client's side and everything between two live peers.

Names are imported from their modules: clients and proxies read no captures.

- ``sources``, ``spool``, ``lazy_file``    files, folders, stdin and interfaces as inputs for codec.capture
- ``recording``, ``scapy_live``           live traffic into files, or as an input
- ``scapy_layer``                         a ``Pulsar`` layer for scapy's users
- ``service``                             service URLs, tokens, TLS
- ``runtime``                             loop and clock of what has sockets
- ``client``                              the client
- ``player``                              captures played again
- ``conversation``, ``expectations``      what tests that `pcli reproduce` writes speak with a broker
- ``proxy``                               a tap between clients and brokers
"""

__all__: list[str] = []
