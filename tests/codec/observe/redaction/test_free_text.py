"""Redacted error messages: only standard words of brokers are kept."""

import pytest

from pcli.codec.observe.redaction import Names
from pcli.codec.observe.redaction.free_text import redact_text, redact_version

PRODUCER_BUSY = (
    "org.apache.pulsar.broker.service.BrokerServiceException$NamingException: "
    "Producer with name 'till' is already connected to topic 'persistent://acme/shop/orders'"
)


def test_known_names_become_their_pseudonyms():
    names = Names()
    names.producer("till")
    assert redact_text(PRODUCER_BUSY, names) == (
        "org.apache.pulsar.broker.service.BrokerServiceException$NamingException: "
        "Producer with name 'producer-1' is already connected to topic 'persistent://tenant-1/namespace-1/topic-1'"
    )


def test_names_stay_if_names_are_kept():
    names = Names(keep_names=True)
    names.producer("till")
    assert redact_text(PRODUCER_BUSY, names) == PRODUCER_BUSY


@pytest.mark.parametrize(
    "text",
    [
        "Exclusive consumer is already connected",
        "Failed to authenticate",
        "Client is not authorized to Get Partition Metadata",
        "Subscription reached max consumers limit",
        "Topic was already terminated",
        "Cannot create producer on topic with backlog quota exceeded",
        "Failed due to pulsar service is not ready",
        "Exceed maximum message size",
        "Incompatible schema: exists schema type JSON, new schema type AVRO",
        "Not enough non-faulty bookies available error code: -6",
    ],
)
def test_standard_words_of_brokers_stay(text):
    assert redact_text(text, Names()) == text


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("Role jane@acme.com is not authorized", "Role xxx is not authorized"),
        ("consumerName=low, [id: 0x1e53, L:/127.0.0.1:6650", "consumerName=xxx, [id: xxx, xxx:/10.0.0.1:6650"),
        ('Unable to read schema: {"name" : "Reading"}', 'Unable to read schema: {"name" : "xxx"}'),
        ("Token abc.def.ghi expired", "Token xxx expired"),
        ("closed by /[2001:db8::7]:40000 for message 7:1:0:3", "closed by /[fd00::1]:40000 for message 7:1:0:3"),
        ("", ""),
    ],
)
def test_unknown_words_are_removed(text, becomes):
    assert redact_text(text, Names()) == becomes


@pytest.mark.parametrize(
    ("version", "becomes"),
    [
        ("Pulsar-CPP-v4.2.0", "Pulsar-CPP-v4.2.0"),
        ("Pulsar-Java-v4.2.4-the acme shop", "Pulsar-Java-v4.2.4"),
        ("Pulsar Server5.0.0-M1", "Pulsar Server5.0.0-M1"),
        ("Pulsar-Flex Nodejs Client v0.0.0", "Pulsar-Flex Nodejs Client v0.0.0"),
        ("2.4.2", "2.4.2"),
        ("acme!", "xxx"),
        ("", ""),
    ],
)
def test_versions_lose_descriptions(version, becomes):
    assert redact_version(version) == becomes
