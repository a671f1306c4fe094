"""Rule first-bytes: other data where Pulsar is expected."""

import pytest


@pytest.mark.parametrize("word", ["tls", "http", "text", "other"])
def test_other_data_at_the_start(evaluate, connection, word):
    found = evaluate(
        "first-bytes",
        connection(connect_frame=0, first_bytes=word, first_bytes_text="it is that", first_bytes_packet=4),
    )
    assert [(one.severity, one.culprit, one.certainty, one.variant) for one in found] == [
        ("error", "application", "certain", word)
    ]
    assert "starting with packet 4: it is that" in found[0].what


def test_a_proxy_header_without_a_response(evaluate, connection):
    [found] = evaluate("first-bytes", connection(first_bytes="proxy-protocol", end="fin_broker", broker_frames=0))
    assert (found.certainty, found.variant) == ("likely", "proxy-protocol")
    assert "haProxyProtocolEnabled" in found.advice


def test_a_proxy_header_that_the_broker_accepts(evaluate, connection):
    assert evaluate("first-bytes", connection(first_bytes="proxy-protocol", end="fin_client")) == []
    assert evaluate("first-bytes", connection(first_bytes="proxy-protocol", broker_frames=0)) == []


def test_pulsar(evaluate, connection):
    assert evaluate("first-bytes", connection()) == []


def test_tls_on_the_tls_port(diagnosed):
    assert diagnosed("python/21-tls", "first-bytes") == []


def test_http_of_the_admin_interface(diagnosed):
    assert diagnosed("python/28-busy-system", "first-bytes") == []


def test_other_data_as_the_response_to_connect(evaluate, connection):
    [found] = evaluate("first-bytes", connection(first_bytes="tls", first_bytes_text="an alert", broker_frames=0))
    assert found.certainty == "likely"
