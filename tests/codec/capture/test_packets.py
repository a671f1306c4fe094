"""Timestamps of interfaces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.capture.packets import Interface


@given(st.integers(0, 2**64 - 1), st.integers(0, 9))
def test_powers_of_ten(stamp, power):
    interface = Interface(1)
    interface.set_units(10**power)
    assert interface.time(stamp) == stamp * 10 ** (9 - power)


@given(st.integers(0, 2**64 - 1), st.integers(0, 127))
def test_powers_of_two_are_rounded_down(stamp, power):
    interface = Interface(1)
    interface.set_units(1 << power)
    assert interface.time(stamp) == stamp * 10**9 >> power


def test_only_fixed_link_headers_have_a_fast_path():
    assert [Interface(link).skip for link in (1, 113, 276)] == [14, 16, 20]
    assert Interface(101).pull is None
