"""Tables of a real capture, created once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pcli.spark.analysis import analyze
from pcli.spark.engine import InProcess
from pcli.spark.report.report_data import ReportData, open_report_data
from pcli.spark.request import Request
from pcli.spark.tables.stored_tables import StoredTables


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory, captures: Path) -> StoredTables:
    """The tables of a capture with redeliveries, acks and findings."""
    out = str(tmp_path_factory.mktemp("report") / "out")
    analyze(Request((str(captures / "python" / "10-shared-redelivery.pcap"),), out), InProcess())
    return StoredTables(out)


@pytest.fixture(scope="session")
def data(stored: StoredTables) -> Iterator[ReportData]:
    """The data of a report about these tables."""
    with open_report_data(stored) as opened:
        yield opened
