"""Reading of other protocols ends, in work proportional to the packets."""

from __future__ import annotations

from hypothesis import example, given, settings

from tests.codec.capture.foreign_traffic import BOTH_GAPS, CONNECTIONS, Foreign
from tests.step_budget import step_budget

CALLS = 1000
"""Maximum number of calls for a packet. Usual packets need fewer than 100."""


@settings(max_examples=100)
@example(BOTH_GAPS)
@given(CONNECTIONS)
def test_the_work_for_each_packet_is_limited(w, talks):
    packets = Foreign(talks).packets
    with step_budget(CALLS * (len(packets) + 10)):
        w.read(w.file(packets))
