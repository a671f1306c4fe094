"""Hashes compared with published vectors and with the behaviour of a real broker."""

import pytest

from pcli.codec.errors import LocalError
from pcli.codec.wire.hashes import (
    java_string_hash,
    murmur3_31,
    murmur3_32,
    partition_key_bytes,
    partition_of,
    sticky_hash,
)


# The SMHasher vectors of MurmurHash3_x86_32, as listed on its Wikipedia page and in the tests of many libraries.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"test", 0xBA6BD213),
        (b"Hello, world!", 0xC0363E43),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
        (b"\xff\xff\xff\xff", 0x76293B50),
        (b"\x21\x43\x65\x87", 0xF55B516B),
        (b"\x21\x43\x65", 0x7E4A8634),
        (b"\x21\x43", 0xA0F7B07A),
        (b"\x21", 0x72661CF4),
    ],
)
def test_murmur3(data, expected):
    assert murmur3_32(data) == expected


# The values of the Java and C++ clients' own hash tests.
@pytest.mark.parametrize(
    ("key", "expected"),
    [("key1", 462881061), ("a", 1009084850), ("hello", 613153351), ("NONE_KEY", 504741539), ("", 0)],
)
def test_murmur3_without_its_sign(key, expected):
    assert murmur3_31(key.encode()) == expected


@pytest.mark.parametrize(("key", "sticky"), [("key1", 293), ("hello", 64071), ("a", 27058)])
def test_slots_of_key_shared(key, sticky):
    assert sticky_hash(key.encode()) == sticky


def test_slot_zero_is_reserved():
    assert murmur3_31(b"") % 65536 == 0
    assert sticky_hash(b"") == 1


# String.hashCode, from the Java language's definition: s[0]*31^(n-1) + … + s[n-1], in 32 bits.
@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("ab", 97 * 31 + 98), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("😀", 1772899)],
)
def test_java_string_hash(text, expected):
    assert java_string_hash(text) == expected


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_without_partitions(partitions):
    with pytest.raises(LocalError, match="at least one"):
        partition_of("hello", partitions)


def test_a_lone_surrogate_is_hashed_as_a_question_mark():
    assert partition_of("\ud800", 7, murmur=True) == partition_of("?", 7, murmur=True)


def test_partition_of_a_key():
    assert partition_of("hello", 4) == 99162322 % 4
    assert partition_of("polygenelubricants", 7) == 0  # the sign bit is cut off, which leaves 0
    assert partition_of("hello", 4, murmur=True) == 613153351 % 4


def test_a_partition_key_is_decoded_from_base64_if_it_is_marked_and_valid():
    assert partition_key_bytes(b"AAE=", base64_encoded=True) == b"\0\1"
    assert partition_key_bytes(b"AAE=", base64_encoded=False) == b"AAE="
    assert partition_key_bytes(b"A", base64_encoded=True) == b"A"
