"""Keys and their pseudonyms are in the same slots."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.observe.redaction.key_pseudonyms import key_pseudonyms
from pcli.codec.wire.hashes import murmur3_32, sticky_hash


@given(st.binary(max_size=40))
def test_a_pseudonym_is_in_the_slot_of_its_key(key):
    found = next(key_pseudonyms(key))
    assert found.isalnum()
    assert len(found) == 8
    assert sticky_hash(found) == sticky_hash(key)


@pytest.mark.parametrize("key", [b"", b"k", b"order-17", "schlüssel".encode(), bytes(range(256))])
def test_a_key_has_several_pseudonyms_with_its_hash(key):
    several = list(islice(key_pseudonyms(key), 5))
    assert len(set(several)) == 5
    assert {murmur3_32(one) for one in several} == {murmur3_32(key)}
    assert several == list(islice(key_pseudonyms(key), 5))
