"""Serialization of the values that an incremental run keeps for the next run.

The values are pickled, because they contain objects of the reader. A pickle can name any function, so a manipulated
file could run code. Therefore only classes that the packages of the reader define, numpy arrays and plain containers
are loaded. Class names are part of the format: if a class was renamed, older values are rejected as values of a
different version.
"""

from __future__ import annotations

import io
import pickle
import zlib
from typing import Any, Final

from pcli.codec.errors import LocalError

__all__ = ["dump", "load"]

_PLAIN: Final = frozenset({
    ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "bytearray"), ("builtins", "range"),
    ("builtins", "complex"), ("collections", "deque"), ("collections", "Counter"), ("collections", "OrderedDict"),
    ("collections", "defaultdict"), ("copyreg", "_reconstructor"), ("builtins", "object"),
    ("numpy", "ndarray"), ("numpy", "dtype"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"), ("numpy._core.numeric", "_frombuffer"),
})  # fmt: skip
_READER: Final = ("pcli.codec.", "pcli.spark.")


def dump(value: Any) -> bytes:
    """Serialize a value."""
    return zlib.compress(pickle.dumps(value, protocol=5), 1)


def load(data: bytes, where: str) -> Any:
    """Deserialize a value; raise a LocalError that names ``where`` if it is damaged or from a different version."""
    try:
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
