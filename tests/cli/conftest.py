"""Commands that run in the process of the tests, because separate processes would take most of the time."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass

import pytest


@dataclass
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str
    raw: bytes

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture
def pcli(monkeypatch):
    """Run ``pcli`` with these arguments and with separate file descriptors 0, 1 and 2; stdin is bytes."""
    from pcli.cli.app import main

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        threshold = gc.get_threshold()
        with ExitStack() as stack, monkeypatch.context() as patch:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin)
            files[0].seek(0)
            for number, file in enumerate(files):
                kept = os.dup(number)
                stack.callback(os.close, kept)
                stack.callback(os.dup2, kept, number)
                os.dup2(file.fileno(), number)
            for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
                patch.setattr(sys, name, stack.enter_context(open(number, mode, closefd=False)))
            patch.setattr(sys, "argv", ["pcli", *map(str, arguments)])
            with pytest.raises(SystemExit) as end:
                main()
            sys.stdout.flush()
            sys.stderr.flush()
            gc.set_threshold(*threshold)
            code = end.value.code or 0
            for file in files:
                file.seek(0)
            raw, err = files[1].read(), files[2].read()
        assert b"Traceback" not in err
        return Ran(code, raw.decode(errors="surrogateescape"), err.decode(), raw)

    return run


@pytest.fixture
def produce(pcli, broker):
    """Run ``pcli produce`` with this test's broker."""
    return lambda topic, *arguments, **more: pcli("produce", topic, "-u", broker.service_url, *arguments, **more)


@pytest.fixture
def consume(pcli, broker):
    """Run ``pcli consume`` with this test's broker."""
    return lambda topic, *arguments, **more: pcli("consume", topic, "-u", broker.service_url, *arguments, **more)


@pytest.fixture
def running():
    """Processes that a test has started. They are killed when the test ends."""
    running = []
    yield running
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        for file in (one.process.stdout, one.process.stderr, one.line):
            if file is not None:
                file.close()


@pytest.fixture
def listening():
    """Start ``pcli`` with these arguments on real loopback packets for at most a minute; return the listening process.

    The test is skipped if there is no capture program or no permission.
    """
    if not (shutil.which("tcpdump") or shutil.which("dumpcap")):
        pytest.skip("neither tcpdump nor dumpcap is installed")
    with ExitStack() as stack:

        def start(command, *arguments):
            command = [sys.executable, "-m", "pcli.cli", command, "-i", "lo", *arguments]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.enter_context(process)
            timer = threading.Timer(60, process.kill)
            timer.start()
            for after in (timer.cancel, process.kill):
                stack.callback(after)
            first_line = process.stderr.readline()
            if first_line != "pcli: capturing on lo; press Ctrl-C to stop\n":
                pytest.skip(f"no live capture here: {first_line}{process.communicate()[1]}")
            return process

        yield start
