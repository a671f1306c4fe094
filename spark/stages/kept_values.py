"""Serialization of the values that an incremental run keeps for the next run.

The values are pickled, because they contain objects of the reader. A pickle can name any function, so a manipulated
file could run code. Therefore only classes of the modules of the reader's state, numpy arrays and plain containers are
loaded. Class names are part of the format: if a class was renamed, older values are rejected as values of a different
version.

A Tracker also contains methods of its parts, and rules. A method is stored as its object and name, and only the methods
in `_METHODS` are loaded; a rule is stored as its name.

The contents of the objects are not checked, and a pickle can call everything that it can load. A class or method may
therefore be added only if it does not get an attribute whose name is data.
"""

from __future__ import annotations

import io
import pickle
import uuid
import zlib
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.observe.diagnosis import Diagnosis
from pcli.codec.observe.observer import Observer
from pcli.codec.observe.rules import RULES, Rule
from pcli.codec.observe.tracking.connections.connection_tracker import ConnectionTracker
from pcli.codec.observe.tracking.producers.producer_commands import ProducerCommands
from pcli.codec.observe.tracking.producers.producer_tracker import ProducerTracker
from pcli.codec.observe.tracking.producers.receipts import Receipts
from pcli.codec.observe.tracking.scalable.scalable_topic_tracker import ScalableTopicTracker
from pcli.codec.observe.tracking.subscriptions.acks import Acks
from pcli.codec.observe.tracking.subscriptions.consumer_sessions import ConsumerSessions
from pcli.codec.observe.tracking.subscriptions.subscription_tracker import SubscriptionTracker
from pcli.codec.observe.tracking.subscriptions.transaction_end import TransactionEnd
from pcli.codec.observe.tracking.tracker import Tracker
from pcli.codec.observe.tracking.transactions import Transactions
from pcli.spark.columnar.observation.observe_group import Group
from pcli.spark.stages.kept_states import StateFile
from pcli.spark.stages.read_sequentially import collection_disabled
from pcli.spark.tables.data_files import Staging, write_bytes
from pcli.spark.tables.table_store import Store

_PLAIN: Final = frozenset({
    ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "bytearray"), ("builtins", "range"),
    ("collections", "deque"), ("collections", "Counter"), ("collections", "OrderedDict"),
    ("numpy", "ndarray"), ("numpy", "dtype"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"), ("numpy._core.numeric", "_frombuffer"),
    ("pcli.spark.columnar.observation.observe_group", "_all"),
    ("pcli.spark.columnar.observation.frames_from_rows", "open_kept"),
    ("pcli.spark.stages.kept_values", "_method"), ("pcli.spark.stages.kept_values", "_rule"),
})  # fmt: skip
_MODULES: Final = frozenset({
    "pcli.codec.bounded_dict", "pcli.codec.wire.problems",
    "pcli.codec.capture.connections", "pcli.codec.capture.fast_path", "pcli.codec.capture.flows",
    "pcli.codec.capture.frame_extraction", "pcli.codec.capture.frames", "pcli.codec.capture.ip",
    "pcli.codec.capture.output", "pcli.codec.capture.resync",
    "pcli.codec.capture.stream_kind", "pcli.codec.capture.streams", "pcli.codec.capture.tls.key_log",
    "pcli.codec.capture.tls.record_cipher", "pcli.codec.capture.tls.session", "pcli.codec.capture.unread_packets",
    "pcli.codec.observe.diagnosis", "pcli.codec.observe.observer",
    "pcli.codec.observe.observer_state", "pcli.codec.observe.rules.finding",
    "pcli.codec.scalable.layout", "pcli.codec.scalable.segment_name",
    "pcli.spark.columnar.observation.finding_table",
    "pcli.spark.columnar.observation.host_history", "pcli.spark.columnar.observation.observe_group",
    "pcli.spark.columnar.observation.recording_context",
    "pcli.spark.columnar.permits.permit_sessions",
    "pcli.spark.columnar.reading.recent_segments",
    "pcli.spark.input.capture_files", "pcli.spark.input.capture_headers", "pcli.spark.input.read_plan",
    "pcli.spark.stages.kept_states", "pcli.spark.stages.read_sequentially",
    "pcli.spark.stages.split_tables", "pcli.spark.tables.data_files",
})  # fmt: skip
"""Modules whose classes are loaded, with those of `_TRACKER`."""

_TRACKER: Final = "pcli.codec.observe.tracking."

_METHODS: Final[dict[type, tuple[str, ...]]] = {
    Acks: ("response",),
    ConnectionTracker: ("_end_silently",),
    ConsumerSessions: (
        "active_change", "close", "connect", "last_message_id", "response", "seek_request", "subscribe",
    ),
    Diagnosis: ("_done",),
    Group: ("_asked",),
    Observer: ("see",),
    ProducerCommands: ("close", "error", "producer", "producer_success", "success"),
    ProducerTracker: ("_close", "_send", "_send_error"),
    Receipts: ("error", "receipt"),
    ScalableTopicTracker: (
        "_assignment_update", "_close", "_lookup", "_metadata", "_response", "_subscribe", "_subscribe_response",
        "_unsubscribe", "_update",
    ),
    SubscriptionTracker: (
        "_ack", "_close_producer", "_flow", "_message", "_on_producer", "_producer", "_redeliver", "_send",
    ),
    Tracker: ("_end_connection", "see"),
    TransactionEnd: ("request", "response"),
    Transactions: ("add_acks", "add_topics", "end_on_broker", "request", "response", "transaction_of"),
}  # fmt: skip
"""Methods that a state contains. Only they are loaded."""


def dump(value: Any) -> bytes:
    """Serialize a value."""
    target = io.BytesIO()
    pickler = pickle.Pickler(target, protocol=5)
    pickler.dispatch_table = {MethodType: _reduced_method, Rule: lambda rule: (_rule, (rule.name,))}
    with collection_disabled():
        pickler.dump(value)
    return zlib.compress(target.getbuffer(), 1)


def _reduced_method(method: MethodType) -> tuple[Callable[..., Any], tuple[object, str]]:
    return _method, (method.__self__, method.__func__.__name__)


def _method(of: object, name: str) -> MethodType:
    """Return a method in `_METHODS`; raise UnpicklingError for any other object or attribute."""
    function = vars(type(of)).get(name) if name in _METHODS.get(type(of), ()) else None
    if isinstance(function, FunctionType):
        return MethodType(function, of)
    raise pickle.UnpicklingError(f"the method {name} of {type(of).__qualname__} is not allowed")


def _rule(name: str) -> Rule:
    """Return a rule; raise UnpicklingError if there is none with this name."""
    if name not in RULES:
        raise pickle.UnpicklingError(f"there is no rule {name}")
    return RULES[name]


def load(data: bytes, where: str) -> Any:
    """Deserialize a value; raise a LocalError that names ``where`` if it is damaged or from a different version."""
    try:
        with collection_disabled():
            return _RestrictedUnpickler(io.BytesIO(zlib.decompress(data))).load()
    except (zlib.error, pickle.UnpicklingError, AttributeError, ImportError, EOFError, TypeError, ValueError) as error:
        raise LocalError(
            f"{where}: damaged, or written by a different version of pcli ({error}): omit --incremental to read "
            "all files again"
        ) from None


def keep_value(staging: Staging, what: str, value: Any) -> StateFile:
    """Write a value to a file whose name begins with ``what``, and return the file."""
    return StateFile(write_bytes(staging, f"{what}-{uuid.uuid4().hex}", dump(value)))


def load_kept(store: Store, name: str) -> Any:
    """Return the value in a file of the state; raise LocalError if the file is missing, or as `load` does."""
    data = store.read(name)
    if data is None:
        raise LocalError(f"{store.path(name)}: missing; omit --incremental to read all files again")
    return load(data, store.path(name))


class _RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        """Return a class that `dump` may contain; raise UnpicklingError for any other class."""
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if (module in _MODULES or module.startswith(_TRACKER)) and "." not in name:
            found = super().find_class(module, name)
            # A module also contains the classes that it imports, such as Path.
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
