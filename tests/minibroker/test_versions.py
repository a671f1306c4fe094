"""The table of versions. The values of its behaviours are tested where the broker uses them."""

from __future__ import annotations

import pytest

from pcli.codec.errors import LocalError
from pcli.minibroker.ignored_settings import IGNORED
from pcli.minibroker.settings import Settings
from pcli.minibroker.versions import BEHAVIOURS, NAMES, VERSIONS, Behaviour, nearest_version, version_of


def test_an_unknown_version():
    with pytest.raises(LocalError) as error:
        version_of("4.2")
    assert error.value.text == "version '4.2': must be 4.2.4 or 5.0.1"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("", "4.2.4"), ("2.10.1", "4.2.4"), ("4.2.9", "4.2.4"), ("5.0", "5.0.1"), ("5.0.0-M1", "5.0.1"), ("6.1", "5.0.1")],
)
def test_the_nearest_version(name, nearest):
    assert nearest_version(name).name == nearest


def test_every_behaviour_differs():
    for row in BEHAVIOURS:
        assert len({repr(value) for value in row.values}) > 1, row.text


def test_a_behaviour_needs_a_value_for_each_version():
    with pytest.raises(ValueError, match="1 values for 2 versions"):
        Behaviour("too short", (1,))


def test_every_setting_that_differs_is_known():
    known = IGNORED.keys() | {row.name for row in Settings.describe()}
    for name in NAMES:
        version = VERSIONS[name]
        assert version.missing | version.defaults.keys() <= known
        assert version.dynamic <= version.defaults.keys()
