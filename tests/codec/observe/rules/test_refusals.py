"""The culprit of an error, and whether a later attempt succeeded."""

import pytest

from pcli.codec.observe.rules.refusals import cause_of_error, succeeded_later


@pytest.mark.parametrize(("error", "message", "culprit"), [
    ("ServiceNotReady", "", "broker"), ("ChecksumError", "", "network"), ("ProducerBusy", "", "application"),
    ("MetadataError", "No available broker found.", "broker"), ("MetadataError", "Consumer not found", "client"),
])  # fmt: skip
def test_culprits(error, message, culprit):
    assert cause_of_error(error, message).culprit == culprit


def test_later_success(consumer, counted):
    assert succeeded_later(consumer(), counted(1, 3, first=0.5)) == "It succeeded later, in frame 6."
    assert succeeded_later(consumer(), counted(1, 9, first=2)) == ""
    assert succeeded_later(consumer(session=None), counted(1, 9)) == ""
