"""Administrative operations in captures, compared with the captures' truth files."""

import json

import pytest

from pcli.replay.player.script.admin_interventions import find_interventions
from pcli.replay.player.script.broker_preparation import prepare

DEEDS = [
    ("flex/04-reconnect.pcapng", ["PUT unload"]),
    ("go/seek-and-unload.pcap", ["PUT unload"]),
    ("java/deletions.pcap", ["POST resetcursor", "DELETE "]),
    ("java/pattern-watcher.pcap", ["DELETE "]),
    ("java/terminate.pcap", ["POST terminate"]),
    ("java/unload.pcap", ["PUT unload", "PUT unload"]),
    ("python/16-seek.pcapng", ["POST resetcursor"]),
    ("python/26a-broker-restart.pcap", ["PUT unload", "RESTART "]),
    ("python/28-busy-system.pcapng", ["PUT unload"]),
]
"""The deletion of a subscription that starts at the earliest message equals a reset of its cursor."""


def short(call):
    last = call.path.rpartition("/")[2]
    return f"{call.method} {last if last in ('unload', 'terminate', 'resetcursor') else ''}"


@pytest.mark.parametrize(("name", "deeds"), DEEDS)
def test_interventions_are_inferred(name, deeds, captures, script):
    assert [short(intervention.call) for intervention in find_interventions(script(captures / name))] == deeds


def test_a_reset_cursor_has_the_captured_position(captures, script):
    path = captures / "python" / "16-seek.pcapng"
    (intervention,) = find_interventions(script(path))
    truth = json.loads(path.with_name("16-seek.truth.json").read_text())
    received = [one["message_id"] for one in truth["events"] if one["type"] == "received"]
    asked = next(one["t"] for one in truth["events"] if one["type"] == "admin")
    after = next(one["message_id"] for one in truth["events"] if one["type"] == "received" and one["t"] > asked)
    assert after in received
    assert ":".join(map(str, intervention.call.position)) == ":".join(after.split(":")[:2])


@pytest.mark.parametrize("name", ["go/reader.pcapng", "java/seek.pcap", "java/access-modes.pcap", "java/limits.pcap"])
def test_a_requested_close_is_no_intervention(name, captures, script):
    assert find_interventions(script(captures / name)) == []


def test_more_partitions(captures, script):
    found = prepare(script(captures / "java" / "partition-auto-update.pcap"), {})
    path = "persistent/public/default/partition-auto-update/partitions"
    assert [(call.method, call.path, call.body) for call in found.calls][-1] == ("PUT", path, 2)
    ((call,),) = found.before.values()
    assert (call.method, call.path, call.body) == ("POST", path, 4)


def test_settings_are_inferred_from_the_capture(captures, script):
    found = prepare(script(captures / "java" / "broker-entry-metadata.pcap"), {})
    assert found.settings["exposingBrokerEntryMetadataToClientEnabled"] == "true"
    assert found.settings["brokerEntryMetadataInterceptors"].count("Append") == 2
    assert prepare(script(captures / "go" / "chunks.pcap"), {}).settings == {"maxMessageSize": "16384"}
    assert prepare(script(captures / "go" / "chunks.pcap"), {"maxMessageSize": "5"}).settings == {}


def test_receipts_of_duplicates_enable_deduplication(captures, script):
    calls = prepare(script(captures / "python" / "23-dedup.pcap"), {}).calls
    assert ("namespaces/public/23-dedup/deduplication", True) in [(call.path, call.body) for call in calls]


def test_calls_contain_renamed_topics(captures, script):
    found = prepare(script(captures / "java" / "unload.pcap"), {}, lambda name: name.replace("/default/", "/other/"))
    assert "namespaces/public/other" in [call.path for call in found.calls]
    assert {call.path for calls in found.instead.values() for call in calls} == {
        "persistent/public/other/unload/unload"
    }


def test_commands_that_the_broker_dropped_are_skipped(captures, script):
    """Refused during the unload: two SUBSCRIBEs and a PRODUCER, with their responses."""
    found = script(captures / "go" / "seek-and-unload.pcap")
    names = sorted(found.steps[index].name for index in prepare(found, {}).skipped)
    assert names == ["ERROR"] * 3 + ["PRODUCER", "SUBSCRIBE", "SUBSCRIBE"]
