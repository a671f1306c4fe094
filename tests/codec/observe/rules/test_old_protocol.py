"""Rule old-protocol: protocol versions and the features they lack."""

import pytest


@pytest.mark.parametrize(("version", "severity"), [(14, "note"), (11, "note"), (10, "warning"), (0, "warning")])
def test_old_clients(evaluate, connection, version, severity):
    [found] = evaluate("old-protocol", connection(protocol_version=version, server_protocol_version=version))
    assert (found.severity, found.culprit, found.certainty, found.frames) == (severity, "client", "certain", [1])
    assert found.subject == {"client": "10.0.0.1", "client_version": "a client", "server": "10.0.0.2:6650"}


def test_an_old_broker(evaluate, connection):
    [found] = evaluate("old-protocol", connection(protocol_version=21, server_protocol_version=12))
    assert (found.culprit, found.variant) == ("broker", "broker")
    assert "being told who is active" not in found.what
    assert "transactions" in found.what


@pytest.mark.parametrize("version", [-1, 15, 20, 21])
def test_current_or_unknown_versions(evaluate, connection, version):
    assert evaluate("old-protocol", connection(protocol_version=version, server_protocol_version=version)) == []


def test_connections_of_one_library_are_one_finding(evaluate, connection):
    found = [evaluate("old-protocol", connection(stream=one, protocol_version=12))[0] for one in (1, 2)]
    assert found[0].identity == found[1].identity


def test_real_captures(diagnosed):
    [found] = diagnosed("java/old-client-2.4.2", "old-protocol")
    assert found.what.startswith("Client 2.4.2 uses protocol version 14 instead of 21.")
    assert diagnosed("python/30-snaplen-96", "old-protocol") == []
