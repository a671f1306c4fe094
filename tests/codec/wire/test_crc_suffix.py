"""The checksum of the end of a sequence, compared with google_crc32c."""

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.wire.crc_suffix import crc_of_suffix


@given(st.binary(), st.binary(max_size=3000))
def test_the_checksum_of_the_suffix_is_that_of_its_bytes(prefix: bytes, suffix: bytes) -> None:
    whole = google_crc32c.value(prefix + suffix)
    assert crc_of_suffix(whole, google_crc32c.value(prefix), len(suffix)) == google_crc32c.value(suffix)
