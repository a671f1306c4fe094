"""The broker on sockets: the TCP server, the HTTP server, and the server with taps and faults."""

__all__: list[str] = []
