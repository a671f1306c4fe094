"""The culprit for the end of sessions."""

import pytest

from pcli.codec.observe.rules.reconnect_causes import CAUSES, PEER_CAUSES, cause_of_ends
from pcli.codec.observe.tracking.records.connection_records import ENDS


@pytest.mark.parametrize(("ends", "culprit"), [
    ([], "client"), (["closed"], "client"), (["fin_client"], "client"), (["closed", "reset_client"], "client"),
    (["reset_client", "reset_broker"], "network"), (["silence"], "network"), (["silence", "broker"], "broker"),
    (["auth"], "application"),
])  # fmt: skip
def test_culprits_of_ends(ends, culprit):
    assert cause_of_ends(ends).culprit == culprit


def test_causes_are_keys_of_the_tracker():
    assert {*CAUSES, *PEER_CAUSES} <= set(ENDS)
