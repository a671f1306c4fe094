"""Replays of all captures against a mini-broker: rules explain every difference."""

import json
import os
from dataclasses import fields
from pathlib import Path

import pytest

from pcli.minibroker.settings import Settings
from pcli.replay.player.comparison.rules import RULES

DOCS = Path(__file__).parents[3] / "docs" / "replay.md"

OBEYED = {field.name for field in fields(Settings)} - {"bindAddress", "advertisedAddress"}

POLICIES = {
    "python/24-stuck-unacked.pcap": {"maxUnackedMessagesPerConsumer": "50"},
    "python/24b-stuck-alone.pcapng": {"maxUnackedMessagesPerConsumer": "50"},
}
"""Namespace policies of the captured broker, as settings."""

NOTHING = {
    "java/late-capture.pcap": "connections that began before the capture",
    "java/scalable-namespace.pcap": "connections with features of Pulsar 5.0",
    "java/scalable-topic.pcap": "connections with features of Pulsar 5.0",
    "java/scalable-transaction.pcap": "connections with features of Pulsar 5.0",
    "python/30-snaplen-96.pcap": "frames from the first gap or cut packet on",
    "python/32-midstream.pcap": "connections that began before the capture",
}
"""Captures that cannot be replayed, and the reported reason."""

TLS = "python/21-tls.pcapng"
AUTHENTICATED = ("java/auth-token.pcap", "python/20-token-authentication.pcap")


def truth_of(path):
    return path.parent / f"{path.name.partition('.pcap')[0]}.truth.json"


def settings_of(path, name):
    """Return the captured broker's settings that the mini-broker supports."""
    truth = json.loads(truth_of(path).read_text())
    told = {key: value for key, value in truth["broker"]["settings"].items() if key in OBEYED}
    return told | POLICIES.get(name, {})


def captures_in(folder):
    found = [path for path in sorted(folder.glob("*/*")) if ".pcap" in path.name or path.is_dir()]
    return {str(path.relative_to(folder)): path for path in found}


@pytest.fixture(scope="module")
def corpus(captures):
    return captures_in(captures)


@pytest.fixture(scope="module")
def played(corpus, play):
    """The report of every capture that can be replayed."""
    names = [name for name in corpus if name not in NOTHING and name != TLS]
    return {name: play(corpus[name], settings_of(corpus[name], name)) for name in names}


def unexplained(report):
    return {(one["command"], one["field"]) for one in report.differences if not one["rule"]}


def test_differences_in_the_corpus_are_explained(corpus, played):
    for name, report in played.items():
        assert unexplained(report) == set(), name
        assert sum(report.equal.values()) > 0, name
    assert len(played) == len(corpus) - len(NOTHING) - 1 > 120


def table_of(reports):
    """The table of docs/replay.md."""
    equal = sum(sum(report.equal.values()) for report in reports)
    explained = sum(row[2] for report in reports for row in report.rows())
    rows = "".join(
        f"| {rule.name} | {rule.kind} | {rule.text} | {sum(one.rules[rule.name] for one in reports)} "
        f"| {sum(rule.name in one.rules for one in reports)} |\n"
        for rule in RULES
    )
    return (
        f"Needed in the {len(reports)} captures of the corpus that can be played, against the mini-broker: "
        f"{equal:,} answers are equal, {explained:,} explained.\n\n"
        f"| rule | kind | why | needed | in captures |\n|---|---|---|---|---|\n{rows}"
    )


def test_the_table_in_the_docs_is_current(played):
    """PCLI_WRITE_DOCS=1 writes it."""
    page, start, end = DOCS.read_text(), "<!-- rules: made by test_corpus.py -->\n\n", "\n<!-- end of rules -->"
    head, _, rest = page.partition(start)
    made = f"{head}{start}{table_of(list(played.values()))}{end}{rest.partition(end)[2]}"
    if os.environ.get("PCLI_WRITE_DOCS"):
        DOCS.write_text(made)
    assert made == page or os.environ.get("PCLI_WRITE_DOCS")


@pytest.mark.skipif("PCLI_REAL_URL" not in os.environ, reason="PCLI_REAL_URL and PCLI_REAL_ADMIN name no real broker")
def test_the_corpus_against_a_real_broker(corpus, play_live):
    """Captures whose broker had special settings or policies are skipped: the real broker has none."""
    wrong = []
    for name, path in corpus.items():
        if name not in {*NOTHING, *AUTHENTICATED, TLS} and not settings_of(path, name):
            report = play_live(path, os.environ["PCLI_REAL_URL"], os.environ.get("PCLI_REAL_ADMIN", ""))
            print(name, sum(report.equal.values()), dict(report.rules), *report.first(3))
            if not report.good:
                wrong.append(name)
    assert wrong == []


@pytest.mark.parametrize(("name", "reason"), NOTHING.items())
def test_connections_that_cannot_be_replayed_are_listed(name, reason, corpus, script):
    found = script(corpus[name])
    assert found.steps == []
    assert any(key.startswith(reason) for key in found.left_out)


def test_two_replays_of_one_capture_are_equal(small_captures, play):
    path = small_captures / "python" / "10-shared-redelivery.pcap"
    assert play(path).json() == play(path).json()
