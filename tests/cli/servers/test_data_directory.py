"""`pcli broker --data` and the commands for a data directory, with processes that are killed."""

import json
import signal
import sqlite3
from base64 import b64decode
from contextlib import closing
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from pcli.codec.proto import pb
from pcli.minibroker import MiniBroker
from tests.cli.servers.test_broker import Running


@pytest.fixture
def start(tmp_path, running):
    def go(*arguments):
        running.append(Running(("--data", str(tmp_path / "data"), *arguments), tmp_path))
        return running[-1]

    return go


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def lookup(broker):
    return broker.ask(pb.CommandPartitionedTopicMetadata(topic="jobs", request_id=1))


@pytest.fixture
def stored(pcli, data):
    """A data directory with two topics (one is __change_events) and two messages, one of which is acknowledged."""
    with MiniBroker(data=data, topics=["orders"]) as broker:
        url = ("-u", broker.service_url)
        assert pcli("produce", "orders", *url, "-m", "first", "-k", "k1", "-p", "color=blue").code == 0
        assert pcli("consume", "orders", *url, "-s", "billing", "--from", "earliest", "-n", 1).code == 0
        assert pcli("produce", "orders", *url, "-m", "sécond").code == 0
    return data


def payloads(pcli, directory):
    with MiniBroker(data=directory) as broker:
        waiting = pcli("consume", "orders", "-u", broker.service_url, "-s", "billing", "--exit-at-end", "-T", "ndjson")
        return broker.topic("orders").payloads, [json.loads(line)["payload"] for line in waiting.lines]


def test_the_state_survives_sigkill(start):
    broker = start("--topic", "jobs:3")
    assert lookup(broker).partitionMetadataResponse.partitions == 3
    broker.process.kill()
    broker.process.wait()
    assert lookup(start()).partitionMetadataResponse.partitions == 3


def test_the_directory_belongs_to_one_broker(start, pcli, data):
    broker = start()
    for arguments in (("--data", data), ("--check", data), ("--export", data)):
        refused = pcli("broker", "--port", 0, "--http-port", 0, *arguments)
        assert (refused.code, refused.out, refused.err) == (
            2,
            "",
            f"pcli: {data}: another broker uses this directory\n",
        )
    assert lookup(broker).type == pb.BaseCommand.PARTITIONED_METADATA_RESPONSE


def test_no_sync_prints_a_warning(start, data):
    code, _, err = start("--no-sync").stop(signal.SIGTERM)
    assert (code, err) == (0, f"pcli: {data}: --no-sync: confirmed messages can be lost if the machine loses power\n")


def test_an_export_contains_state_and_messages(pcli, stored, tmp_path):
    out = tmp_path / "messages.ndjson"
    written = pcli("broker", "--export", stored, "-o", out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert written.err == f"pcli: {out}: {len(rows)} lines\n"
    assert rows[0] == {"format": 1}
    assert {"path": "/last-storage-id", "document": 1} in rows
    first, second = (row for row in rows if row.get("topic") == "public/default/persistent/orders")
    assert first["messages"] == [{"key": "k1", "properties": {"color": "blue"}, "payload": "first"}]
    assert second["messages"] == [{"payload": "sécond"}]
    assert b64decode(second["entry"]).endswith("sécond".encode())
    assert pcli("broker", "--export", stored).out == out.read_text()


def test_an_import_restores_messages_and_subscriptions(pcli, stored, tmp_path):
    lines = pcli("broker", "--export", stored).raw
    copy = tmp_path / "copy"
    assert pcli("broker", "--import", "-", "--data", copy, stdin=lines).err == f"pcli: {copy}: 2 entries\n"
    assert pcli("broker", "--export", copy).raw == lines
    assert payloads(pcli, copy) == payloads(pcli, stored) == ([b"first", "sécond".encode()], ["sécond"])


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (b"", "the export is empty"),
        (b'{"format":9}\n', "line 1: the format is 9; this version of pcli reads 1"),
        (b'{"format":1}\n{"path":"/x"}\n', "line 2: not a line of an export"),
        (b'{"format":1}\n{"storage":1,"number":0,"entry":"?"}\n', "line 2: not a line of an export"),
        (b'{"format":1}\n' + b'{"path":' * 100_000 + b"1" + b"}" * 100_000, "line 2: not a line of an export"),
        (b'{"format":1}\n\xff\n', "not UTF-8 text"),
    ],
)
def test_an_invalid_export_is_refused_and_leaves_no_database(pcli, tmp_path, data, lines, reason):
    file = tmp_path / "export.ndjson"
    file.write_bytes(lines)
    refused = pcli("broker", "--import", file, "--data", data)
    assert (refused.code, refused.err) == (2, f"pcli: --import {file}: {reason}\n")
    assert not list(data.iterdir())


def test_an_import_does_not_overwrite_a_database(pcli, stored):
    lines = pcli("broker", "--export", stored).raw
    refused = pcli("broker", "--import", "-", "--data", stored, stdin=b'{"format":1}\n')
    reason = f"{stored}: contains a database already; choose another directory"
    assert (refused.code, refused.err) == (2, f"pcli: --import -: {reason}\n")
    assert pcli("broker", "--export", stored).raw == lines


def test_a_check_counts_entries(pcli, stored):
    size = sum(
        len(b64decode(row["entry"]))
        for row in map(json.loads, pcli("broker", "--export", stored).lines)
        if "entry" in row
    )
    checked = pcli("broker", "--check", stored)
    assert (checked.code, checked.out) == (0, f"2 topics, 2 entries ({size} bytes), 0 problems\n")
    as_json = pcli("broker", "--check", stored, "-T", "json")
    assert json.loads(as_json.out) == {"topics": 2, "entries": 2, "bytes": size, "problems": []}


LEDGERS = "/managed-ledgers/public/default/persistent/orders"
CURSOR = "/cursors/public/default/persistent/orders/billing"


def damage(directory, statement, *values):
    with closing(sqlite3.connect(directory / "broker.db")) as connection, connection:
        connection.execute(statement, values)


DAMAGES = {
    "not JSON": ("UPDATE documents SET value = '{' WHERE path = ?", LEDGERS),
    "deep JSON": (f"UPDATE documents SET value = '{'[' * 100_000}' WHERE path = ?", LEDGERS),
    "a field is missing": ("UPDATE documents SET value = '{\"storage\":1}' WHERE path = ?", LEDGERS),
    "a document of a subscription": (
        "UPDATE documents SET value = '{}' WHERE path = ?",
        CURSOR,
    ),
}


@pytest.mark.parametrize("statement", DAMAGES.values(), ids=DAMAGES)
def test_a_topic_with_a_damaged_document_is_refused_and_not_changed(pcli, stored, caplog, statement):
    """Other topics are available."""
    damage(stored, *statement)
    path = statement[1]
    checked = pcli("broker", "--check", stored)
    assert (checked.code, checked.lines[:-1]) == (1, [f"the document {path} is damaged"])
    before = documents(stored)
    with MiniBroker(data=stored) as broker:
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{broker.http_url}/admin/v2/persistent/public/default/orders/stats")
        assert f"the document {path} is damaged" in refused.value.read().decode()
        assert pcli("produce", "other", "-u", broker.service_url, "-m", "x").code == 0
    assert caplog.messages[0] == f"persistent://public/default/orders cannot be loaded: the document {path} is damaged"
    assert {key: value for key, value in documents(stored).items() if "orders" in key} == {
        key: value for key, value in before.items() if "orders" in key
    }


def documents(directory):
    with closing(sqlite3.connect(directory / "broker.db")) as connection:
        return dict(connection.execute("SELECT path, value FROM documents"))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (("UPDATE documents SET value = '{}' WHERE path = '/broker'",), "the document /broker is damaged"),
        (("DELETE FROM documents WHERE path = '/broker'",), "the document /broker is damaged"),
        (
            ("UPDATE documents SET value = '[]' WHERE path = '/admin/policies/public/default'",),
            "the document /admin/policies/public/default is damaged",
        ),
        (("DROP TABLE documents",), "{}/broker.db: no such table: documents"),
        (("DROP TABLE starts",), "{}/broker.db: no such table: starts"),
    ],
)
def test_a_broker_does_not_start_with_a_damaged_document(pcli, stored, statement, reason):
    damage(stored, *statement)
    before = (stored / "broker.db").read_bytes()
    reason = reason.format(stored)
    refused = pcli("broker", "--port", 0, "--http-port", 0, "--data", stored)
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert reason in refused.err
    checked = pcli("broker", "--check", stored)
    assert checked.code == 1
    assert reason in checked.out
    assert (stored / "broker.db").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--check", "none"), "none: no data directory of pcli broker (broker.db is missing)"),
        (("--export", "none"), "none: no data directory of pcli broker (broker.db is missing)"),
        (("--import", "none", "--data", "new"), "none: no such file or directory"),
        (("--import", "none"), "--import requires --data DIR, the directory to create"),
        (("--check", "a", "--export", "b"), "--check, --export and --import exclude each other"),
        (("-o", "file"), "-o requires --export DIR"),
        (("--no-sync",), "--no-sync requires --data DIR"),
        (("--data", "file/data"), "file/data: not a directory"),
    ],
)
def test_options_that_cannot_be_used(pcli, tmp_path, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    refused = pcli("broker", "--port", 0, "--http-port", 0, *arguments)
    assert (refused.code, refused.out, refused.err) == (2, "", f"pcli: {reason}\n")
