"""Pasted bytes in the output formats of common tools."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.wire.hextext import pull_bytes

PING = bytes.fromhex("000000080000000408129201") + b"\x00"  # 13 bytes, certainly binary
FLOW = "0000000c00000008080b5a040801100a"


@pytest.mark.parametrize(
    "text",
    [
        FLOW,
        FLOW.upper(),
        "0x" + FLOW,
        "00 00 00 0c 00 00 00 08 08 0b 5a 04 08 01 10 0a",
        "0000 000c 0000 0008 080b 5a04 0801 100a\n",
        "00:00:00:0c:00:00:00:08:08:0b:5a:04:08:01:10:0a",
        "{0x00, 0x00, 0x00, 0x0c, 0x00, 0x00, 0x00, 0x08, 0x08, 0x0b, 0x5a, 0x04, 0x08, 0x01, 0x10, 0x0a}",
        r"\x00\x00\x00\x0c\x00\x00\x00\x08\x08\x0b\x5a\x04\x08\x01\x10\x0a",
        r"b'\x00\x00\x00\x0c\x00\x00\x00\x08\x08\x0bZ\x04\x08\x01\x10\n'",
        r'"\0\0\0\f\0\0\0\b\b\vZ\x04\b\x01\x10\n"',
        "AAAADAAAAAgIC1oECAEQCg==",
        "00000000: 0000 000c 0000 0008 080b 5a04 0801 100a  ..........Z.....\n",  # xxd
        "00000000  00 00 00 0c 00 00 00 08  08 0b 5a 04 08 01 10 0a  |..........Z.....|\n00000010\n",  # hexdump -C
        "0000  00 00 00 0c 00 00 00 08 08 0b 5a 04 08 01 10 0a   ..........Z.....\n",  # tshark -x
        "000000 00 00 00 0c 00 00 00 08 08 0b 5a 04 08 01 10 0a  >..........Z.....<\n000010\n",  # od -A x -t x1z
        "\t0x0000:  0000 000c 0000 0008 080b 5a04 0801 100a\n",  # tcpdump -x
        "\t0x0000:  0000 000c 0000 0008 080b 5a04 0801 100a  ..........Z.....\n",  # tcpdump -X
        "00000000: 0000000c00000008080b5a040801100a  ..........Z.....\n",  # xxd -g 0
        "0000000 00 00 00 0c 00 00 00 08\n0000010 08 0b 5a 04 08 01 10 0a\n0000020\n",  # od -w8 -t x1, in octal
        "0000 000c 0000 0008\n080b 5a04 0801 100a\n",  # columns of hex, of which the first is not an offset
        "{0x0, 0x0, 0x0, 0xc, 0x0, 0x0, 0x0, 0x8, 0x8, 0xb, 0x5a, 0x4, 0x8, 0x1, 0x10, 0xa}",
        "00000000: 0000 000c 0000 0008 080b                 ..........\n0000000a: 5a04 0801 100a  Z.....\n",
    ],
)
def test_forms(text):
    assert pull_bytes(text.encode()).hex() == FLOW


def test_binary_input_is_unchanged():
    assert pull_bytes(PING) == PING
    assert pull_bytes(b"0123", "binary") == b"0123"


def test_a_text_column_that_resembles_hex_is_not_data():
    assert pull_bytes(b"00000000: 6162 6364                                abcd\n") == b"abcd"


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        ("00 0g", "hex", "'g' is not a hex digit (at byte 4)"),
        ("00 0", "hex", "1 hex digit: one is missing, or there is one too many (at byte 3)"),
        ("0 00 0", "hex", "(at byte 0)"),
        ("0x0, c, 0x0", "auto", "1 hex digit: one is missing, or there is one too many (at byte 5)"),
        ("00 000 00", "auto", "3 hex digits: one is missing, or there is one too many (at byte 3)"),
        ("0x00 0x", "hex", "0x without a digit (at byte 5)"),
        ("é 0g", "hex", "'é' is not a hex digit (at byte 0)"),
        ("00 é", "hex", "'é' is not a hex digit (at byte 3)"),
        ("0000  00 01\nno line", "dump", "not a line of a hex dump: offset, hex digits (at byte 12)"),
        ("", "dump", "not a line of a hex dump"),
        ("0000  00 01\n*\n", "auto", "the dump omits lines here (*): create it with -v (at byte 12)"),
        ("00000000: 0001 000\n", "auto", "3 hex digits: one is missing, or there is one too many (at byte 15)"),
        ("00 zz!", "auto", "is not a hex digit"),
        ("AAA", "base64", "not base64"),
    ],
)
def test_invalid_text(text, form, said):
    with pytest.raises(LocalError) as caught:
        pull_bytes(text.encode(), form)
    assert said in str(caught.value)


# If the work were a multiple of the input, the run would take minutes at this size.
@pytest.mark.parametrize("text", ["A" + "\n" * 300_000 + "!", "0000  00\n" + " " * 300_000 + "x", "a" * 300_001 + "="])
def test_long_runs_are_read_in_one_pass(text):
    with pytest.raises(LocalError):
        pull_bytes(text.encode())


@pytest.mark.parametrize(
    "line",
    [
        lambda at, row: f"{at:08x}: {row.hex(' ', -2)}  {shown(row)}",  # xxd
        lambda at, row: f"{at:08x}  {row[:8].hex(' ')}  {row[8:].hex(' '):25} |{shown(row)}|",  # hexdump -C
        lambda at, row: f"{at:06x} {row.hex(' '):47}  >{shown(row)}<",  # od -A x -t x1z
        lambda at, row: f"{at:07o} {row.hex(' ')}",  # od -t x1
        lambda at, row: f"{at:04x}  {row.hex(' '):47}   {shown(row)}",  # tshark -x
        lambda at, row: f"\t0x{at:04x}:  {row.hex(' ', -2):39}  {shown(row)}",  # tcpdump -X
    ],
)
@given(st.one_of(st.binary(min_size=1, max_size=99), st.text("abcdef0123456789 ", min_size=1).map(str.encode)))
def test_dumps_round_trip(line, data):
    dump = "\n".join(line(at, data[at : at + 16]) for at in range(0, len(data), 16))
    assert pull_bytes(dump.encode(), "dump") == data


def shown(row):
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)


@given(st.binary(min_size=1))
def test_selected_forms_round_trip(data):
    assert pull_bytes(data.hex().encode(), "hex") == data
    assert pull_bytes(base64.b64encode(data), "base64") == data
    assert pull_bytes(repr(data).encode(), "escapes") == data


@given(st.text())
def test_any_text_raises_only_local_errors(text):
    for form in ("auto", "hex", "base64", "dump", "escapes"):
        try:
            pull_bytes(text.encode(), form)
        except LocalError:
            continue
