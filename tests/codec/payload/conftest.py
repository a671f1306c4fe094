"""Test vectors of the Java client, and helpers for entries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pcli.codec.proto import pb


@pytest.fixture(scope="session")
def java() -> dict[str, Any]:
    """Values that the Java client wrote; the file contains its version."""
    return json.loads((Path(__file__).parent / "java_vectors.json").read_text())  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def meta() -> Callable[..., pb.MessageMetadata]:
    """Return metadata with the required fields and the given ones."""
    return lambda **fields: pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1, **fields)


@pytest.fixture(scope="session")
def peak() -> Callable[[Callable[[], object]], int]:
    """Return the maximum memory of a call in bytes."""
    import tracemalloc

    def measure(call: Callable[[], object]) -> int:
        tracemalloc.start()
        try:
            call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure
