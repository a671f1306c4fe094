"""The system calls of `pcli broker --data`: no receipt is sent before its message is on the disk."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from pcli.codec.wire.frame import Frame
from pcli.codec.wire.reader import FrameReader
from tests.cli.servers.test_broker import Running

MESSAGES = 50
TRACED = "pwrite64,fdatasync,fsync,write,writev,sendto,sendmsg"


@pytest.fixture
def strace(tmp_path):
    """The command line of strace, with the bytes of all calls in the file ``calls``."""
    program = shutil.which("strace")
    if program is None or subprocess.run([program, "-o", os.devnull, "true"], capture_output=True).returncode:
        pytest.skip("strace cannot trace here")
    return [program, "-f", "-yy", "-xx", "-s", "100000", "-e", f"trace={TRACED}", "-o", tmp_path / "calls"]


def unescaped(text):
    """Return the bytes of a string with ``\\x`` escapes; strace writes the addresses of sockets without them."""
    return bytes.fromhex(text.replace("\\x", "")) if text.startswith("\\x") else text.encode()


def calls(path):
    """Yield the name, the file and the bytes of each call, writes at their start and syncs at their end."""
    started = {}
    for line in path.read_text().splitlines():
        thread, text = line.split(maxsplit=1)
        if text.startswith("<..."):
            name, file, data = started.pop(thread)
        elif found := re.match(r'(\w+)\(\d+<(.*?)>(?=[,)])(?:, (?:\[\{iov_base=)?"(.*?)")?', text):
            name, file, data = found[1], unescaped(found[2]).decode(), unescaped(found[3] or "")
            started[thread] = name, file, data
            if "sync" not in name:
                yield name, file, data
                continue
            if text.endswith("<unfinished ...>"):
                continue
        else:
            continue
        if "sync" in name:
            yield name, file, data


def violations(path):
    """Return the numbers of the messages whose receipt was sent before their entry was written and synchronized."""
    written, synced, early, receipts = set(), set(), [], []
    readers = {}
    for name, file, data in calls(path):
        if file.endswith("broker.db-wal"):
            if "sync" in name:
                synced |= written
            else:
                written |= set(map(int, re.findall(rb"message-(\d{6})", data)))
        elif file.startswith("TCP:"):
            for frame in readers.setdefault(file, FrameReader()).feed(data):
                command = Frame.of(frame.data).command
                if command.HasField("send_receipt"):
                    receipts.append(command.send_receipt.sequence_id)
                    early += {receipts[-1]} - synced
    assert receipts == list(range(MESSAGES))
    return early


@pytest.mark.parametrize(("options", "synchronized"), [((), True), (("--no-sync",), False)])
def test_fdatasync_is_called_between_the_write_of_a_commit_and_its_receipts(
    pcli, running, tmp_path, strace, options, synchronized
):
    broker = Running(("--data", tmp_path / "data", *options), tmp_path, strace)
    running.append(broker)
    lines = b"".join(b"message-%06d\n" % number for number in range(MESSAGES))
    assert pcli("produce", "orders", "-u", broker.ready_file["service_url"], "--batch", 0, stdin=lines).code == 0
    os.kill(broker.ready_file["pid"], signal.SIGTERM)
    broker.process.communicate(timeout=20)
    assert (violations(tmp_path / "calls") == []) == synchronized
