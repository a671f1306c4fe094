"""Requests on scalable topics that were sent to a real 5.0.1 standalone, in this order, and its responses."""

from __future__ import annotations

import json
import re
from pathlib import Path

ANSWERS = Path(__file__).with_name("answers.jsonl")
TIMES = ("at", "createdAtMs", "sealedAtMs", "createdAt", "sealedAt", "topicCreationTime")
TIMES += ("lastSplitAt", "lastMergeAt", "lastRebucketAt")
LOAD = "load"
"""The load of a segment, which a broker reports every 10 seconds."""


def comparable(text: str):
    """Return a response without its times. An internal error ends before its stack."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return masked(value) if isinstance(value, dict | list) else value


def masked(value):
    if isinstance(value, dict):
        return {key: key in TIMES or masked(item) for key, item in value.items() if key != LOAD}
    if isinstance(value, list):
        return [masked(item) for item in value]
    return re.sub(r"\n\nStacktrace.*", "", value, flags=re.DOTALL) if isinstance(value, str) else value


def test_responses_equal_a_real_brokers(make_rest):
    world, rest = make_rest(version="5.0.1")
    wrong = []
    lines = ANSWERS.read_text().splitlines()
    for line in lines:
        recorded = json.loads(line)
        answer = rest(recorded["method"], recorded["path"], recorded.get("body", "").encode())
        page = answer.headers.get("content-type", "").startswith("text/html")
        found = "" if page else comparable(answer.data.decode())
        if (answer.status, page, found) != (
            recorded["status"],
            "page" in recorded,
            comparable(recorded.get("text", "")),
        ):
            wrong.append((recorded, answer.status, found))
    assert len(lines) > 450
    assert not wrong, "\n".join(map(str, wrong))
    assert not world.broker.failures
