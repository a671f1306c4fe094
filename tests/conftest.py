"""Fixtures of all tests: where the real captures are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes is the machine's affair: no test of ours fails for being slow.
settings.register_profile("pcli", deadline=None)
settings.load_profile("pcli")

SMALL = Path(__file__).parent / "captures"
SHARED = Path(__file__).parent.parent.parent / "shared"


def _shared(folder: str) -> Path:
    path = SHARED / folder
    if not path.is_dir():
        if os.environ.get("PCLI_NEED_SHARED"):
            pytest.fail(f"{path} is missing, and PCLI_NEED_SHARED is set")
        pytest.skip(f"{path} is not here")
    return path


@pytest.fixture(scope="session")
def small_captures() -> Path:
    """The captures that are committed."""
    return SMALL


@pytest.fixture(scope="session")
def captures() -> Path:
    """The whole corpus."""
    return _shared("captures")


@pytest.fixture(scope="session")
def protocol_facts() -> Path:
    """The folder with the list of the protocol's facts."""
    return _shared("protocol")
