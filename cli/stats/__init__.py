"""`pcli stats` with its subcommands: tables of rates, connections, consumers, permits and key ranges."""

__all__: list[str] = []
