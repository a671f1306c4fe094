"""The command line: help, exit codes, interruption."""

import re
import signal
import struct
import subprocess
import sys
from textwrap import dedent

import pytest

from pcli.cli import __version__

COMMANDS = ("decode", "encode", "dissect", "follow", "fields", "capture", "stats", "analyze", "report", "doctor")


def test_help_teaches_in_panels(pcli):
    result = pcli("--help")
    assert result.code == 0
    assert re.search(r"^Frames and captures:\n  decode ", result.out, re.MULTILINE)
    assert all(f"  {name} " in result.out for name in COMMANDS)
    assert "Exit codes: 0" in result.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(pcli, command):
    result = pcli(command, "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: pcli {command}")


def imported_by(*arguments: str) -> set[str]:
    """Return the modules that a command imports."""
    script = """
        import sys
        from pcli.cli.commands import run
        try:
            run()
        finally:
            print("modules", *sys.modules)
    """
    command = [sys.executable, "-c", dedent(script), *arguments]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split())


HEAVY = {"asyncio", "cramjam", "numpy", "pyarrow", "pydantic", "pyspark", "rich", "scapy", "ssl", "starlette", "uvloop"}
READING = {
    "pcli.codec.capture.reading",
    "pcli.codec.observe.filters.parser",
    "pcli.codec.observe.observer",
    "pcli.codec.observe.rules",
    "pcli.codec.observe.tracking.tracker",
    "pcli.codec.payload.avro",
}
"""What reads captures, and decodes values."""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["stats", "--help"], ["broker", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    assert not imported_by(*arguments) & (HEAVY | READING | {"google.protobuf", "pcli.codec.proto"})


def test_decode_imports_only_what_decodes_frames():
    assert not imported_by("decode", "0000000c00000008080b5a040801100a") & (HEAVY - {"cramjam"} | READING)


@pytest.mark.parametrize("first", ["decode", "--version"])
def test_a_command_imports_no_other_command(first):
    assert not imported_by(first, "--help") & {"pcli.cli.frames.dissect", "pcli.cli.stats.stats"}


def test_a_broker_imports_only_what_it_uses():
    script = """
        import sys
        from pcli.minibroker import MiniBroker
        with MiniBroker(port=0, http_port=0, max_log=0):
            print(*sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", dedent(script)], capture_output=True, text=True, check=True)
    unused = {"sqlite3", "uvicorn", "cryptography", "pcli.minibroker.admin", "pcli.minibroker.embedded.snapshots"}
    assert not set(done.stdout.split()) & (HEAVY - {"asyncio", "cramjam", "ssl", "uvloop"} | READING | unused)


def test_version(pcli):
    assert pcli("--version").out == f"pcli {__version__}\n"


def test_unknown_command(pcli):
    result = pcli("disect")
    assert result.code == 2
    assert "Did you mean 'dissect'?" in result.err


def test_a_closed_pipe_is_no_error(small_captures):
    capture = small_captures / "python" / "10-shared-redelivery.pcap"
    command = f"{sys.executable} -m pcli.cli dissect -r {capture} -V; echo $? >&2"
    done = subprocess.run(f"({command}) | head -n 1", shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == "0\n"
    assert len(done.stdout.splitlines()) == 1


HEADS = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1) + struct.pack("<IIII", 1, 0, 1 << 18, 1 << 18)
"""Return the header of a pcap file and of a packet of 256 KB."""


def test_ctrl_c_ends_quietly():
    command = [sys.executable, "-m", "pcli.cli", "dissect", "-r", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # The data exceeds the pipe's buffer, so the command is reading when the write returns.
    process.stdin.write(HEADS + bytes(200_000))
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("module", ["typer", "pcli.cli.top.top"])
def test_ctrl_c_is_quiet_while_the_commands_are_imported(module):
    """The signal arrives while this module is imported."""
    script = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupting:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting)
from pcli.cli.app import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_closed_stdout_is_reported_in_one_line(small_captures):
    command = f"{sys.executable} -m pcli.cli dissect -r {small_captures / 'go' / 'nack.pcap'} >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "pcli: stdout is closed: nothing can be printed\n")


def test_a_closed_stderr_keeps_the_exit_code():
    command = f"{sys.executable} -m pcli.cli dissect -r missing.pcap 2>&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
