"""What people paste, in the forms that the usual tools print."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.errors import LocalError
from pcli.codec.wire.hextext import pull_bytes

PING = bytes.fromhex("000000080000000408129201") + b"\x00"  # 13 bytes, binary for sure
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
        "00000000: 0000 000c 0000 0008 080b                 ..........\n0000000a: 5a04 0801 100a  Z.....\n",
    ],
)
def test_forms(text):
    assert pull_bytes(text.encode()).hex() == FLOW


def test_binary_is_taken_as_it_is():
    assert pull_bytes(PING) == PING
    assert pull_bytes(b"0123", "binary") == b"0123"


def test_a_text_column_that_looks_like_hex_is_no_data():
    assert pull_bytes(b"00000000: 6162 6364                                abcd\n") == b"abcd"


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        ("00 0g", "hex", "'g' is no hex digit (at byte 4)"),
        ("00 0", "hex", "3 hex digits"),
        ("00 zz!", "auto", "is no hex digit"),
        ("AAA", "base64", "no base64"),
    ],
)
def test_wrong_text(text, form, said):
    with pytest.raises(LocalError) as caught:
        pull_bytes(text.encode(), form)
    assert said in str(caught.value)


@given(st.binary(min_size=1))
def test_told_forms_round_trip(data):
    assert pull_bytes(data.hex().encode(), "hex") == data
    assert pull_bytes(base64.b64encode(data), "base64") == data
    assert pull_bytes(repr(data).encode(), "escapes") == data


@given(st.text())
def test_no_text_raises_anything_foreign(text):
    for form in ("auto", "hex", "base64", "dump", "escapes"):
        try:
            pull_bytes(text.encode(), form)
        except LocalError:
            continue
