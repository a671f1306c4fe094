"""The start and stop of Spark: without output, with this Python, without a network, within the machine's memory.

Rules of this file
1. Only pcli prints on the terminal. The output of the JVM and the Python workers is written to a file. If Spark does
   not start, the end of this output is shown. If ``debug`` is set, the output is printed instead.
2. Spark SQL is loaded only for DataFrames (`open_spark`); the analysis needs only `open_context`.
3. A caller's session is used without changes and is never stopped.
4. pcli handles Ctrl-C, because pyspark's handler calls the JVM on a connection that waits for a response, and prints a
   trace.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from pcli.codec.errors import LocalError
from pcli.spark.jobs.code_distribution import ship, unship
from pcli.spark.jobs.java import find_java, java_home
from pcli.spark.jobs.job_cancellation import call_in_thread, stop_in_thread
from pcli.spark.jobs.machine_resources import memory_mb
from pcli.spark.jobs.missing_packages import missing_packages
from pcli.spark.jobs.settings import is_local, runs_locally, settings_for
from pcli.spark.jobs.spark_errors import error_text, one_line
from pcli.spark.jobs.yarn_addresses import resource_managers
from pcli.spark.tables.uri_redaction import hidden

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_QUIET: Final = """\
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""

_PATIENCE_S: Final = 5.0

_TAIL: Final = 4096
"""Number of bytes at the end of the JVM's output that are searched for an error if Spark does not start."""


def parsed_conf(words: Sequence[str]) -> dict[str, str]:
    """Return the values of --conf as a dict; raise LocalError if a value does not have the form ``key=value``."""
    conf = {}
    for word in words:
        key, equal, value = word.partition("=")
        if not equal or not key.strip():
            raise LocalError(f"--conf {word}: write KEY=VALUE, for example spark.executor.memory=4g")
        conf[key.strip()] = value
    return conf


@contextmanager
def open_spark(master: str, conf: Mapping[str, str] | None = None, *, debug: bool = False) -> Iterator[SparkSession]:
    """Open a session, for callers that need DataFrames; see `open_context`."""
    with open_context(master, conf, debug=debug) as context:
        from pyspark.sql import SparkSession

        session = SparkSession(context)
        try:
            yield session
        finally:
            stop_in_thread(session.stop)


@contextmanager
def open_context(master: str, conf: Mapping[str, str] | None = None, *, debug: bool = False) -> Iterator[SparkContext]:
    """Start Spark on this master, and stop it at the end of the block. Workers without pcli receive its code.

    Raise LocalError if pyspark or Java is missing, or if Spark does not start (bad master or conf).
    """
    try:
        import pyspark
    except ImportError:
        raise missing_packages("Spark", "spark") from None
    _check_master(master, conf or {})
    settings = settings_for(master, memory_mb(), conf or {})
    with (
        tempfile.TemporaryDirectory(prefix="pcli-spark-") as folder,
        _log(folder, debug=debug) as log,
        nullcontext() if debug else _silent(),
    ):
        settings = _with_java_options(settings, Path(folder), debug=debug)
        context = _started(settings, log, _environment(master, Path(folder), Path(pyspark.__file__).parent))
        gateway = context._gateway
        try:
            if not is_local(str(context.master)):
                ship(context, Path(folder))
            yield context
        finally:
            try:
                stop_in_thread(context.stop)
            finally:
                _end(gateway)


def _log(folder: str, *, debug: bool) -> AbstractContextManager[IO[bytes] | None]:
    """Return the file for the output of the JVM and the workers; None if the output is printed."""
    return nullcontext() if debug else tempfile.TemporaryFile(dir=folder)


def _environment(master: str, folder: Path, spark_home: Path) -> dict[str, str]:
    """Return the environment for Spark's scripts. The user's values are kept, except an unsuitable JAVA_HOME."""
    here = {"SPARK_LOCAL_IP": "127.0.0.1"} if runs_locally(master) else {}
    ours = {"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable} | here
    kept = {key: os.environ.get(key) or value for key, value in ours.items()}
    return kept | {"JAVA_HOME": str(java_home(find_java(), folder))}


@contextmanager
def _set(environment: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process, which pyspark reads, during the block."""
    before = {key: os.environ.get(key) for key in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def _started(settings: dict[str, str], log: IO[bytes] | None, environment: Mapping[str, str]) -> SparkContext:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    out = {"stdout": log, "stderr": log} if log is not None else None
    gateways: list[Any] = []
    try:
        with _set(environment), _own_interrupt():
            # A Ctrl-C during the launch would leave a JVM that cannot report its port and never ends.
            call_in_thread(lambda: gateways.append(launch_gateway(conf, out)))  # type: ignore[no-untyped-call]
            return SparkContext(conf=conf, gateway=gateways[0])
    except KeyboardInterrupt:
        _end(*gateways)
        raise
    except (PySparkException, Py4JError, OSError) as fault:  # OSError: the JVM and its connection have ended
        _end(*gateways)
        raise LocalError(f"Spark does not start: {hidden(_reason(fault, log))}") from fault


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Restore the SIGINT handler after the block.

    pyspark sets its handler only in the main thread, and only that thread can restore it.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _silent() -> Iterator[None]:
    """Discard py4j's log messages on broken connections and Ctrl-C, which pcli reports in one line or not at all.

    py4j uses Python's root logger, which prints on the terminal if it has no handler.
    """
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def _end(gateway: Any = None) -> None:
    """End the JVM if there is one, because the next session may need a different JVM."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None
    unship()
    if gateway is not None:
        with suppress(OSError, Py4JError):
            gateway.shutdown()
        if gateway.proc is not None:
            gateway.proc.stdin.close()  # signals the JVM that its driver has ended
            gateway.proc.wait()


def _check_master(master: str, conf: Mapping[str, str]) -> None:
    """Raise LocalError if no standalone master or resource manager of YARN listens at its address.

    Spark would report this only after a minute (standalone) or 15 minutes (YARN).
    """
    if master == "yarn":
        places = resource_managers(conf)
        problem = f"no resource manager responds at {', '.join(f'{host}:{port}' for host, port in places)}"
    else:
        found = re.findall(r"([^/,:]+):(\d+)", master) if master.startswith("spark://") else []
        places, problem = [(host, int(port)) for host, port in found], "no Spark master responds at this address"
    for place in places:
        with suppress(OSError), socket.create_connection(place, timeout=_PATIENCE_S):
            return
    if places:
        raise LocalError(f"--master {master}: {problem}")


def _with_java_options(settings: dict[str, str], folder: Path, *, debug: bool) -> dict[str, str]:
    """Add the log4j configuration for the driver's JVM. Executors write their logs to their own files.

    On one machine the driver's JVM only moves bytes, so full optimization of its code takes more time than it saves (27
    instead of 16 CPU seconds for the smallest job).
    """
    properties = folder / "log4j2.properties"
    properties.write_text(_QUIET.format(level="info" if debug else "error"))
    key = "spark.driver.extraJavaOptions"
    quick = ["-XX:TieredStopAtLevel=1"] if runs_locally(settings["spark.master"]) else []
    options = [f"-Dlog4j2.configurationFile={properties.as_uri()}", *quick, settings.get(key, "")]
    return settings | {key: " ".join(options).strip()}


def _reason(fault: BaseException, log: IO[bytes] | None) -> str:
    """Return a one-line reason from an exception and the output of the JVM."""
    from py4j.protocol import Py4JNetworkError

    words = error_text(fault)
    if not words or isinstance(fault, OSError | Py4JNetworkError) or "JAVA_GATEWAY_EXITED" in words:
        words = _tail(log)
    message = "\n".join(
        line for line in words.splitlines() if not re.match(r"\s*at |\s*WARNING|Setting|To adjust", line)
    )
    return one_line(message)


def _tail(log: IO[bytes] | None) -> str:
    if log is None:
        return ""
    size = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), _TAIL, max(0, size - _TAIL)).decode(errors="replace")
