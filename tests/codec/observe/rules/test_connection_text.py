"""Names of connections and hosts in findings."""

from pcli.codec.observe.rules.connection_text import about_connection, about_host, place
from pcli.codec.observe.tracking.records.connection_records import HostRecord


def test_names(connection):
    assert about_connection(connection(stream=3)) == "connection 3 (10.0.0.1:40000 to 10.0.0.2:6650, a client)"
    assert about_connection(connection(client_version="")).endswith("6650)")
    assert about_connection(connection(client_version="\x1b[31m")).count("\x1b") == 0
    assert about_host(HostRecord("10.0.0.1", ("::1", 6650))) == "client 10.0.0.1 (server [::1]:6650)"
    assert place(("::1", 1)) == "[::1]:1"
