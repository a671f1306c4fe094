"""Tests out of captures: they pass against the mini-broker, and fail when it misbehaves."""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from pcli.cli.replay.reproduce import reproduction as write
from pcli.codec.faults import Fault
from pcli.minibroker import MiniBroker

ROOT = Path(__file__).parents[4]
OF_EACH_CLIENT = [
    "python/02-batched-keys-properties.pcap",
    "python/10-shared-redelivery.pcap",
    "python/20-token-authentication.pcap",
    "go/chunks.pcap",
    "go/nack.pcap",
    "rust/cumulative-ack.pcap",
    "flex/01-produce-consume.pcap",
    "flex/04-reconnect.pcapng",
    "java/broker-entry-metadata.pcap",
    "java/key-shared-sticky.pcap",
    "java/pattern-watcher.pcap",
    "java/refusals.pcap",
    "java/schemas.pcap",
    "java/size-limits.pcap",
    "java/txn-commit.pcap",
]
DELAYED = ["java/delayed.pcap", "java/retry-letter.pcap", "python/26b-terminate-unload-quota.pcapng"]
SIMPLE = "flex/01-produce-consume.pcap"


@pytest.fixture(scope="module")
def texts(small_captures, script):
    """The tests of some captures, by name."""
    return {name: write(Path(name).name, script(small_captures / name)) for name in OF_EACH_CLIENT}


@pytest.fixture(scope="module")
def files(texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "tests"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"test_{re.sub(r'[^a-z0-9]+', '_', name)}.py").write_text(text)
    return folder


def ran(*words, cwd):
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_they_pass(files):
    out = ran("pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--import-mode=importlib", ".", cwd=files)
    assert f"{len(OF_EACH_CLIENT)} passed" in out


def test_they_are_in_style(files):
    ran("ruff", "format", "--no-cache", "--check", "--config", ROOT / "pyproject.toml", ".", cwd=files)
    ran("ruff", "check", "--no-cache", "--config", ROOT / "pyproject.toml", ".", cwd=files)


def run(text, **options):
    """Run a written test, its broker made with more options."""
    names = {}
    exec(compile(text, "written", "exec"), names)
    names["MiniBroker"] = partial(MiniBroker, **options)
    (test,) = [value for name, value in names.items() if name.startswith("test_")]
    test()


@pytest.mark.parametrize("name", DELAYED)
def test_time_goes_on_where_it_matters(name, captures, script):
    text = write(Path(name).name, script(captures / name))
    assert "broker.clock.advance(" in text
    run(text)


@pytest.mark.parametrize(
    ("on", "options", "words"),
    [
        ("pulsar.type == 'MESSAGE'", {"do": "drop", "times": 1, "after": 4}, "<< MESSAGE"),
        ("pulsar.type == 'MESSAGE'", {"do": "duplicate", "times": 1}, "<< MESSAGE"),
        ("pulsar.type == 'MESSAGE'", {"do": "corrupt", "times": 1}, "expected the entry"),
        ("pulsar.type == 'SEND_RECEIPT'", {"do": "drop", "times": 1, "after": 3}, "expected << SEND_RECEIPT"),
        ("pulsar.type == 'ACK'", {"do": "error", "error": "MetadataError: no", "times": 1}, "heard << ACK_RESPONSE"),
        ("pulsar.type == 'SUBSCRIBE'", {"do": "error", "error": "TopicNotFound", "times": 1}, "heard << ERROR"),
        ("pulsar.type == 'SEND'", {"do": "close", "times": 1, "after": 2}, "has closed the connection"),
    ],
)
def test_they_fail_when_the_broker_misbehaves(on, options, words, texts):
    run(texts[SIMPLE])
    text = texts[SIMPLE].replace("broker.http_url)", "broker.http_url, timeout=2)")
    assert text != texts[SIMPLE]
    with pytest.raises(AssertionError, match=re.escape(words)):
        run(text, faults=[Fault(on, **options)])


def test_it_reads_like_the_conversation(small_captures, script):
    text = write("talk.pcap", script(small_captures / "python/02-batched-keys-properties.pcap"))
    assert text.startswith(
        '"""The conversation of talk.pcap, played against a mini-broker. Written by `pcli reproduce`.'
    )
    assert "def test_talk() -> None:" in text
    lines = [line.strip() for line in text.splitlines()]
    send = next(at for at, line in enumerate(lines) if '.say("SEND"' in line)
    assert 'hear("SEND_RECEIPT", producer_id=0, sequence_id=0, message_id=m[0]' in lines[send + 1]
    assert 'hear("MESSAGE", entry=entry0, consumer_id=0, message_id=m[0]' in lines[send + 2]


def test_long_payloads_are_zeros_and_told_by_size_and_hash(texts):
    text = texts["go/chunks.pcap"]
    assert re.search(r"# \d{4,} bytes, sha256 [0-9a-f]{12}\n", text)
    assert re.search(r"entry\(\s*bytes\(\d{4,}\)", text)
    assert max(map(len, text.splitlines())) <= 120


def test_secrets_are_not_written(texts):
    text = texts["python/20-token-authentication.pcap"]
    assert 'auth_data=b"<hidden: ' in text
    assert "eyJ" not in text


def test_what_is_not_there_is_a_comment(texts):
    assert "# captured: << ERROR (no authentication)" in texts["python/20-token-authentication.pcap"]
    assert "does not come: no transactions" in texts["java/txn-commit.pcap"]
    assert "Not played: connections that began before the capture: 1." in texts[SIMPLE]


def test_what_the_broker_must_have_is_asked_of_it(texts, captures, script):
    assert "brokerEntryMetadataInterceptors=" in texts["java/broker-entry-metadata.pcap"]
    text = write("partitions.pcap", script(captures / "rust/partitions.pcap"))
    assert re.search(r'topics=\["[\w-]+:\d"\]', text) or re.search(r'talk\.admin\("PUT", "[\w/-]+partitions"', text)
