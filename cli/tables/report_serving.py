"""`pcli report --serve`: the web server of a report, until Ctrl-C."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from pcli.cli.common.output import fail, write_line
from pcli.cli.common.signals import StopEvent

if TYPE_CHECKING:
    from pcli.spark.report.selection import Selection
    from pcli.spark.tables.stored_tables import StoredTables

_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Address:
    """The options of the address."""

    bind: str
    port: int
    insecure: bool


def serve(open_tables: Callable[[], StoredTables], title: str, selection: Selection, address: Address) -> None:
    """Serve the report until a signal.

    Raises LocalError if there are no tables, and ends the command if it cannot listen.
    """
    from pcli.replay.proxy.broker_addresses import is_loopback
    from pcli.spark.report.report_server import ReportServer

    bind = address.bind
    if not (address.insecure or is_loopback(bind)):
        fail(f"address {bind or '(all)'}: other hosts could read the tables; accept this with --insecure")
    with _listening(bind, address.port) as listener, closing(ReportServer(open_tables, title, selection)) as report:
        _run(report.application(("*",) if address.insecure else (*_LOCAL, bind)), listener, StopEvent())


def _listening(bind: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        return socket.create_server((bind, port), family=family)
    except OSError as error:
        fail(f"port {port} of {bind}: {(os.strerror(error.errno) if error.errno else str(error)).lower()}")


def _run(application: Any, listener: socket.socket, stop: StopEvent) -> None:
    """Run the server in a thread, print its URL, and wait for a signal."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # messages for developers of web applications
    config = uvicorn.Config(application, log_config=None, access_log=False, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, name="report server", daemon=True)
    thread.start()
    host, port = listener.getsockname()[:2]
    write_line(f"report at  http://{f'[{host}]' if ':' in host else host}:{port}/")
    sys.stdout.flush()
    stop.wait()
    server.should_exit = True
    thread.join()
