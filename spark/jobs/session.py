"""Spark as pcli starts it: quiet, with this Python, without a network, no bigger than the machine.

Rules of this file
1. A user's terminal belongs to pcli. What the JVM and the Python workers print goes to a file; its end is shown when
   Spark does not start, and all of it with ``debug``.
2. Spark SQL is loaded by who needs DataFrames (`open_spark`); the analysis is content with `open_context`.
3. A session that somebody else made is taken as it is, and is never stopped here.
4. Ctrl-C is ours: pyspark's handler asks the JVM, on the connection that waits for an answer, and prints a trace.
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
from pcli.spark.jobs.job_cancellation import call_apart, stop_apart
from pcli.spark.jobs.machine_resources import memory_mb
from pcli.spark.jobs.settings import is_local, settings_for, stays_here
from pcli.spark.jobs.spark_errors import one_line, words_of
from pcli.spark.tables.uri_redaction import hidden

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["open_context", "open_spark", "parsed_conf"]

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
"""Bytes of the JVM's last words that are looked at when it does not start."""


def parsed_conf(words: Sequence[str]) -> dict[str, str]:
    """Values of --conf as a dict; LocalError: one is not ``key=value``."""
    conf = {}
    for word in words:
        key, equal, value = word.partition("=")
        if not equal or not key.strip():
            raise LocalError(f"--conf {word}: it must be key=value, as spark.executor.memory=4g")
        conf[key.strip()] = value
    return conf


@contextmanager
def open_spark(master: str, conf: Mapping[str, str] | None = None, *, debug: bool = False) -> Iterator[SparkSession]:
    """A session, as `open_context` gives a context: for who needs DataFrames."""
    with open_context(master, conf, debug=debug) as context:
        from pyspark.sql import SparkSession

        session = SparkSession(context)
        try:
            yield session
        finally:
            stop_apart(session.stop)


@contextmanager
def open_context(master: str, conf: Mapping[str, str] | None = None, *, debug: bool = False) -> Iterator[SparkContext]:
    """Spark on this master, stopped at the end; with the code that workers need, also where pcli isn't installed.

    LocalError: there is no pyspark, no Java, or Spark does not start (bad master, bad conf), in one line.
    """
    try:
        import pyspark
    except ImportError:
        raise LocalError("Spark is not installed: pip install 'pulsar-pcli[spark]'") from None
    _check_master(master)
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
                stop_apart(context.stop)
            finally:
                _end(gateway)


def _log(folder: str, *, debug: bool) -> AbstractContextManager[IO[bytes] | None]:
    """Where the JVM and the workers print; None: the terminal."""
    return nullcontext() if debug else tempfile.TemporaryFile(dir=folder)


def _environment(master: str, folder: Path, spark_home: Path) -> dict[str, str]:
    """What Spark's scripts read; what the user has set stays, JAVA_HOME aside if it leads to no good Java."""
    here = {"SPARK_LOCAL_IP": "127.0.0.1"} if stays_here(master) else {}
    ours = {"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable} | here
    kept = {key: os.environ.get(key) or value for key, value in ours.items()}
    return kept | {"JAVA_HOME": str(java_home(find_java(), folder))}


@contextmanager
def _set(environment: Mapping[str, str]) -> Iterator[None]:
    """With these in our own environment, from which pyspark takes them."""
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
            # Ctrl-C in the middle of it would leave a JVM that finds nowhere to say where it is, and goes on for ever.
            call_apart(lambda: gateways.append(launch_gateway(conf, out)))  # type: ignore[no-untyped-call]
            return SparkContext(conf=conf, gateway=gateways[0])
    except KeyboardInterrupt:
        _end(*gateways)
        raise
    except (PySparkException, Py4JError, OSError) as fault:  # OSError: the JVM has ended, its connection with it
        _end(*gateways)
        raise LocalError(f"Spark does not start: {hidden(_reason(fault, log))}") from fault


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """SIGINT does afterwards what it did before; only the main thread may set that, and pyspark only does there."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _silent() -> Iterator[None]:
    """What py4j logs of broken connections and of Ctrl-C goes nowhere: it is told as one line, or is no news.

    It uses Python's root logger, which prints on the terminal when nobody has given it a handler.
    """
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def _end(gateway: Any = None) -> None:
    """End the JVM, if there is one: the next session may need another one."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = None
    unship()
    if gateway is not None:
        with suppress(OSError, Py4JError):
            gateway.shutdown()
        if gateway.proc is not None:
            gateway.proc.stdin.close()  # how the JVM learns that its driver has gone
            gateway.proc.wait()


def _check_master(master: str) -> None:
    """A master of Spark's own that nobody listens at is told at once: Spark itself takes a minute."""
    places = re.findall(r"([^/,:]+):(\d+)", master) if master.startswith("spark://") else []
    for host, port in places:
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=_PATIENCE_S):
            return
    if places:
        raise LocalError(f"--master {master}: no Spark master answers there")


def _with_java_options(settings: dict[str, str], folder: Path, *, debug: bool) -> dict[str, str]:
    """With log4j told what to print, in the driver's JVM: those of executors write to files of their own.

    On one machine that JVM moves bytes and does nothing else: compiling its code to the utmost takes more time than it
    gives back (27 against 16 CPU seconds for the least of jobs).
    """
    properties = folder / "log4j2.properties"
    properties.write_text(_QUIET.format(level="info" if debug else "error"))
    key = "spark.driver.extraJavaOptions"
    quick = ["-XX:TieredStopAtLevel=1"] if stays_here(settings["spark.master"]) else []
    options = [f"-Dlog4j2.configurationFile={properties.as_uri()}", *quick, settings.get(key, "")]
    return settings | {key: " ".join(options).strip()}


def _reason(fault: BaseException, log: IO[bytes] | None) -> str:
    """One line out of an exception and of what the JVM printed."""
    from py4j.protocol import Py4JNetworkError

    words = words_of(fault)
    if not words or isinstance(fault, OSError | Py4JNetworkError) or "JAVA_GATEWAY_EXITED" in words:
        words = _tail(log)
    told = "\n".join(line for line in words.splitlines() if not re.match(r"\s*at |\s*WARNING|Setting|To adjust", line))
    return one_line(told)


def _tail(log: IO[bytes] | None) -> str:
    if log is None:
        return ""
    size = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), _TAIL, max(0, size - _TAIL)).decode(errors="replace")
