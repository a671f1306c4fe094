"""Every capture that can be played, against a mini-broker of its own: no answer that no rule explains."""

import json
from dataclasses import fields

import pytest

from pcli.minibroker.settings import Settings

OBEYED = {field.name for field in fields(Settings)} - {"bindAddress", "advertisedAddress"}

POLICIES = {
    "python/24-stuck-unacked.pcap": {"maxUnackedMessagesPerConsumer": "50"},
    "python/24b-stuck-alone.pcapng": {"maxUnackedMessagesPerConsumer": "50"},
}
"""What an administrator had set on the namespace, as a setting."""

NOTHING = {
    "java/late-capture.pcap": "connections that began before the capture",
    "java/scalable-namespace.pcap": "connections that use what only Pulsar 5.0 has",
    "java/scalable-topic.pcap": "connections that use what only Pulsar 5.0 has",
    "java/scalable-transaction.pcap": "connections that use what only Pulsar 5.0 has",
    "python/30-snaplen-96.pcap": "frames from the first hole or cut packet on",
    "python/32-midstream.pcap": "connections that began before the capture",
}
"""What can't be played, and what is said about it."""

TLS = "python/21-tls.pcapng"


def settings_of(path, name):
    """Those of the broker that was captured, as far as the mini-broker has them."""
    truth = json.loads((path.parent / f"{path.name.partition('.pcap')[0]}.truth.json").read_text())
    told = {key: value for key, value in truth["broker"]["settings"].items() if key in OBEYED}
    return told | POLICIES.get(name, {})


def captures_in(folder):
    found = [path for path in sorted(folder.glob("*/*")) if ".pcap" in path.name or path.is_dir()]
    return {str(path.relative_to(folder)): path for path in found}


@pytest.fixture(scope="module")
def corpus(captures):
    return captures_in(captures)


def test_the_corpus(corpus, play):
    played = 0
    for name, path in corpus.items():
        if name in NOTHING or name == TLS:
            continue
        report = play(path, settings_of(path, name))
        assert [one for one in report.differences if not one["rule"]] == [], name
        assert sum(report.equal.values()) > 0, name
        played += 1
    assert played == len(corpus) - len(NOTHING) - 1 > 120


@pytest.mark.parametrize(("name", "reason"), NOTHING.items())
def test_what_cannot_be_played_is_told(name, reason, corpus, script):
    found = script(corpus[name])
    assert found.lines == []
    assert any(key.startswith(reason) for key in found.left_out)


def test_two_replays_of_one_capture_are_equal(small_captures, play):
    path = small_captures / "python" / "10-shared-redelivery.pcap"
    assert play(path).json() == play(path).json()
