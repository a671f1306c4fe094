"""Requests that were sent to a real 4.2.4 standalone, in this order, and its responses (answers*.jsonl)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ANSWERS = Path(__file__).with_name("answers.jsonl")
PARTITIONS = Path(__file__).with_name("answers-of-partitions.jsonl")
POLICIES = Path(__file__).with_name("answers-of-policies.jsonl")
CLUSTERS = Path(__file__).with_name("answers-of-clusters-and-tenants.jsonl")
NAMES = Path(__file__).with_name("answers-of-missing-names.jsonl")
CURSORS = Path(__file__).with_name("answers-of-cursors-and-properties.jsonl")
BUNDLES = Path(__file__).with_name("answers-of-bundles.jsonl")
OFFLOAD = Path(__file__).with_name("answers-of-offload-and-bookies.jsonl")
PEERS = Path(__file__).with_name("answers-of-peers-and-isolation.jsonl")
QUOTAS = Path(__file__).with_name("answers-of-quotas-and-system-topics.jsonl")
PEER_CLUSTERS = Path(__file__).with_name("answers-of-peer-clusters.jsonl")
DELETIONS = Path(__file__).with_name("answers-of-deletions.jsonl")
WITH_TEXTS = (POLICIES, CLUSTERS, NAMES, CURSORS, OFFLOAD, BUNDLES, DELETIONS, PEERS, PEER_CLUSTERS, QUOTAS)

STATUS = {
    "DELETE /admin/v2/clusters/standalone": "there is no broker without its cluster",
}
"""Requests to which this broker responds with a different status, and why."""

TOLD_APART = {
    "GET /admin/v2/clusters/x": "the real broker adds its own settings of TLS",
}
"""Requests whose responses differ in more than ids and times."""

PLAIN = (
    "GET /admin/v2/brokers/health",
    "GET /admin/v2/brokers/ready",
    "GET /admin/v2/brokers/version",
    "GET /lookup/v2/topic/persistent/public/default/missing/bundle",
)
"""Requests whose response is plain text although its type is JSON."""

IDS_AND_TIMES = (
    "ledgerId",
    "timestamp",
    "imeStamp",
    "imestamp",
    "lastConfirmedEntry",
    "Position",
    "Ledger",
    "Date",
    "GeneratedAt",
)


def masked(value):
    """Return a response without the values that differ between runs; lists are sorted."""
    if isinstance(value, dict):
        return {
            key: type(item).__name__ if any(word in key for word in IDS_AND_TIMES) else masked(item)
            for key, item in sorted(value.items())
        }
    if isinstance(value, list):
        return sorted((masked(item) for item in value), key=repr)
    return value


def test_responses_equal_a_real_brokers(rest):
    wrong = []
    lines = ANSWERS.read_text().splitlines()
    for line in lines:
        asked = json.loads(line)
        what = f"{asked['method']} {asked['path']}"
        answer = rest(asked["method"], asked["path"], asked.get("body"), asked.get("media", "application/json"))
        if answer.status != asked["status"] and what not in STATUS:
            wrong.append((what, asked.get("body"), asked["status"], answer.status, answer.data[:200]))
        elif answer.status < 300 and what not in TOLD_APART:
            plain = answer.headers.get("content-type", "").startswith("text/") or what in PLAIN
            ours = answer.data.decode() if plain else answer.json
            if masked(ours) != masked(asked.get("answer")):
                wrong.append((what, asked.get("body"), asked.get("answer"), ours))
        elif "reason" in (asked.get("answer") or {}) and answer.status == asked["status"]:
            assert answer.json["reason"], what
    assert len(lines) > 400
    assert wrong == []


def comparable(data, media):
    """Return a response to compare: the lines of a stack and the page of the HTTP server do not count."""
    if media.startswith("text/html"):
        return "page"
    try:
        value = json.loads(data)
    except ValueError:
        return data
    if isinstance(value, dict) and "Stacktrace" in str(value.get("reason")):
        return value["reason"].partition("Stacktrace")[0]
    return masked(value)


@pytest.mark.parametrize(
    "recording",
    WITH_TEXTS,
    ids=lambda path: path.stem,
)
def test_responses_with_texts_equal_a_real_brokers(make_rest, recording):
    """Bodies are sent as recorded, because the errors contain positions."""
    _, rest = make_rest(forceDeleteNamespaceAllowed=True)
    wrong = []
    for line in recording.read_text().splitlines():
        recorded = json.loads(line)
        answer = rest(recorded["method"], recorded["path"], recorded.get("body", "").encode())
        found = comparable(answer.data.decode(), answer.headers.get("content-type", ""))
        expected = comparable(recorded.get("text", ""), "text/html" if "page" in recorded else "")
        location = answer.headers.get("location") if "location" in recorded else None
        if (answer.status, found, location) != (recorded["status"], expected, recorded.get("location")):
            wrong.append((recorded, answer.status, found, location))
    assert wrong == []


def test_partitions_and_invalid_values_equal_a_real_brokers(rest):
    """Also compares the texts of errors."""
    wrong = []
    for line in PARTITIONS.read_text().splitlines():
        recorded = json.loads(line)
        answer = rest(recorded["method"], recorded["path"], recorded.get("body"))
        if "text" in recorded:
            found, expected = answer.data.decode(), recorded["text"]
        else:
            found, expected = masked(answer.json), masked(recorded.get("answer"))
        if (answer.status, found) != (recorded["status"], expected):
            wrong.append((recorded, answer.status, found))
    assert wrong == []
