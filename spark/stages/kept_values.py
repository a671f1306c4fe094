"""Serialization of the values that an incremental run keeps for the next run.

The values are pickled, because they contain objects of the reader. A pickle can name any function, so a manipulated
file could run code. Therefore only classes that the packages of the reader define, numpy arrays and plain containers
are loaded. Class names are part of the format: if a class was renamed, older values are rejected as values of a
different version.

A Tracker also contains methods of its parts, and rules. A method is stored as its object and name, and only methods of
the packages of the Tracker are loaded; a rule is stored as its name.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Final

from pcli.codec.errors import LocalError
from pcli.codec.observe.rules import RULES, Rule
from pcli.spark.stages.read_sequentially import collection_disabled

__all__ = ["dump", "load"]

_PLAIN: Final = frozenset({
    ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "bytearray"), ("builtins", "range"),
    ("builtins", "complex"), ("collections", "deque"), ("collections", "Counter"), ("collections", "OrderedDict"),
    ("collections", "defaultdict"), ("copyreg", "_reconstructor"), ("builtins", "object"),
    ("numpy", "ndarray"), ("numpy", "dtype"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"), ("numpy._core.numeric", "_frombuffer"),
    ("pcli.codec.observe.observer_state", "open_frame"),
    ("pcli.spark.columnar.observation.observe_group", "_all"),
    ("pcli.spark.stages.kept_values", "_method"), ("pcli.spark.stages.kept_values", "_rule"),
})  # fmt: skip
_READER: Final = ("pcli.codec.", "pcli.spark.")
_TRACKER: Final = ("pcli.codec.observe.", "pcli.spark.columnar.observation.")
"""Packages whose methods are loaded."""


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
    """Return a method of an object of the Tracker; raise UnpicklingError for any other object or attribute."""
    function = next((vars(one)[name] for one in type(of).__mro__ if name in vars(one)), None)
    if isinstance(function, FunctionType) and function.__module__.startswith(_TRACKER):
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


class _RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        """Return a class that `dump` may contain; raise UnpicklingError for any other class."""
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if module.startswith(_READER) and "." not in name:
            found = super().find_class(module, name)
            # A module also contains the classes that it imports, such as Path.
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
