"""TLS ports on real sockets: handshakes, client certificates, reloaded certificates, and other protocols."""

from __future__ import annotations

import datetime
import json
import logging
import re
import socket
import ssl
import urllib.request
from pathlib import Path

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.proto import pb
from pcli.codec.wire.build import push_frame
from pcli.minibroker import MiniBroker

pytest.importorskip("cryptography")

from pcli.minibroker.embedded import self_signed_certificate

CONNECT = push_frame(pb.CommandConnect(client_version="test", protocol_version=21))
WAIT = 10


@pytest.fixture
def certificate(tmp_path):
    """Create a certificate in a folder of its own; return its files."""

    def make(name):
        folder = tmp_path / name
        folder.mkdir()
        return self_signed_certificate.create(folder, "127.0.0.1")

    return make


def port_of(url):
    return int(url.rpartition(":")[2])


def connect(url, trust, client=None):
    """Connect with TLS, send CONNECT and return the socket and the first bytes of the response."""
    context = ssl.create_default_context(cafile=trust)
    if client is not None:
        context.load_cert_chain(*client)
    plain = socket.create_connection(("127.0.0.1", port_of(url)), WAIT)
    try:
        encrypted = context.wrap_socket(plain, server_hostname="127.0.0.1")
    finally:
        plain.close()
    try:
        encrypted.sendall(CONNECT)
        received = encrypted.recv(1 << 16)
        if not received:
            raise ConnectionAbortedError("closed by the broker")
    except OSError:
        encrypted.close()
        raise
    return encrypted, received


def log_lines(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_python_client_uses_tls():
    pulsar = pytest.importorskip("pulsar", exc_type=ImportError)
    with MiniBroker(tls=True) as broker:
        client = pulsar.Client(broker.service_url_tls, tls_trust_certs_file_path=broker.tls_trust_certs)
        consumer = client.subscribe("orders", "work")
        client.create_producer("orders").send(b"hello")
        assert consumer.receive(WAIT * 1000).data() == b"hello"
        client.close()


def test_rest_over_tls_lists_the_urls_of_both_ports():
    with MiniBroker(tls=True) as broker:
        context = ssl.create_default_context(cafile=broker.tls_trust_certs)
        with urllib.request.urlopen(f"{broker.http_url_tls}/admin/v2/clusters/standalone", context=context) as reply:
            cluster = json.load(reply)
        assert {name: url for name, url in cluster.items() if "Url" in name} == {
            "serviceUrl": broker.http_url,
            "serviceUrlTls": broker.http_url_tls,
            "brokerServiceUrl": broker.service_url,
            "brokerServiceUrlTls": broker.service_url_tls,
        }


def test_a_command_that_arrives_with_the_end_of_the_handshake_is_processed():
    with MiniBroker(tls=True) as broker:
        for _ in range(20):
            encrypted, received = connect(broker.service_url_tls, broker.tls_trust_certs)
            assert b"Pulsar Server" in received
            encrypted.close()


def test_plain_text_on_the_tls_port_is_logged_in_one_line_and_closed(caplog):
    with MiniBroker(tls=True) as broker:
        encrypted, _ = connect(broker.service_url_tls, broker.tls_trust_certs)
        with socket.create_connection(("127.0.0.1", port_of(broker.service_url_tls)), WAIT + 5) as plain:
            plain.sendall(CONNECT)
            while plain.recv(1 << 16):
                pass
        encrypted.sendall(push_frame(pb.CommandPing()))
        assert encrypted.recv(1 << 16) == push_frame(pb.CommandPong())
        encrypted.close()
    [line] = log_lines(caplog)
    assert line.startswith("a TLS handshake failed: ")


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("service_url", "a TLS handshake on a port without TLS; the connection is closed"),
        ("http_url", "an invalid HTTP request; the connection is closed"),
    ],
)
def test_tls_on_a_plain_port_is_logged_in_one_line_and_closed(caplog, url, line):
    with MiniBroker() as broker, pytest.raises((ssl.SSLError, ConnectionError)):
        connect(getattr(broker, url), None)
    [logged] = log_lines(caplog)
    assert re.fullmatch(rf"127\.0\.0\.1:\d+: {line}", logged)


@pytest.mark.parametrize("presented", ["none", "other", "expired"])
def test_a_client_without_a_trusted_certificate_is_refused_if_one_is_required(caplog, certificate, presented):
    trusted = certificate("trusted")
    client = {"none": None, "other": certificate("other"), "expired": trusted}[presented]
    if presented == "expired":
        expire(trusted)
    settings = {"tlsTrustCertsFilePath": trusted.certificate, "tlsRequireTrustedClientCertOnConnect": True}
    with MiniBroker(tls=True, **settings) as broker:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            connect(broker.service_url_tls, broker.tls_trust_certs, client)
        if presented != "expired":
            encrypted, received = connect(broker.service_url_tls, broker.tls_trust_certs, trusted)
            assert b"Pulsar Server" in received
            encrypted.close()
    assert len(log_lines(caplog)) == 1


@pytest.mark.parametrize("url", ["service_url_tls", "http_url_tls"])
def test_a_certificate_of_another_authority_gives_no_role(caplog, certificate, url):
    settings = {
        "tlsTrustCertsFilePath": certificate("trusted").certificate,
        "authenticationEnabled": True,
        "authenticationProviders": "AuthenticationProviderTls",
        "anonymousUserRole": "guest",
    }
    with (
        MiniBroker(tls=True, **settings) as broker,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        connect(getattr(broker, url), broker.tls_trust_certs, certificate("other"))
    assert len(log_lines(caplog)) == 1


def expire(files):
    """Replace a certificate with one of the same key that has expired."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    old = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(old.issuer, old.subject, old.public_key(), old.serial_number)
    builder = builder.not_valid_before(yesterday - datetime.timedelta(days=1)).not_valid_after(yesterday)
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    files.certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def test_a_changed_certificate_is_used_for_new_connections(caplog, certificate):
    files, other = certificate("broker"), certificate("other")
    settings = {
        "tlsCertificateFilePath": files.certificate,
        "tlsKeyFilePath": files.key,
        "tlsCertRefreshCheckDurationSec": 0,
    }
    with MiniBroker(tls=True, **settings) as broker:
        first = connect(broker.service_url_tls, files.certificate)[0]
        for old, new in zip(files, other, strict=True):
            Path(old).write_bytes(new.read_bytes())
        second = connect(broker.service_url_tls, other.certificate)[0]
        files.certificate.write_text("no certificate")
        third = connect(broker.service_url_tls, other.certificate)[0]
        for encrypted in (first, second, third):
            encrypted.close()
    [line] = log_lines(caplog)
    assert line.startswith("the changed certificates are not used: ")


def test_an_encrypted_key_is_reported_at_the_start(certificate):
    from cryptography.hazmat.primitives import serialization as pem

    files = certificate("broker")
    key, encryption = pem.load_pem_private_key(files.key.read_bytes(), None), pem.BestAvailableEncryption(b"secret")
    files.key.write_bytes(key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, encryption))
    settings = {"tlsCertificateFilePath": files.certificate, "tlsKeyFilePath": files.key}
    with pytest.raises(LocalError, match="the private key is encrypted"), MiniBroker(tls=True, **settings):
        pass


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "requires tlsCertificateFilePath and tlsKeyFilePath"),
        ({"tlsCertificateFilePath": "/none.pem", "tlsKeyFilePath": "/none.key"}, "/none.pem: no such file"),
        ({"tlsCertificateFilePath": __file__, "tlsKeyFilePath": __file__}, "not a certificate and its private key"),
    ],
)
def test_missing_and_invalid_files_are_reported_at_the_start(settings, text):
    with pytest.raises(LocalError, match=text), MiniBroker(brokerServicePortTls=0, **settings):
        pass
