"""Values that a run keeps for the next one, as bytes and back.

They are pickles, because the reader's own objects are in them; and a pickle can name any function. So only classes of
pcli, of numpy's arrays and of plain containers are taken: a file that somebody else put there can do nothing.
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


def dump(value: Any) -> bytes:
    """A value as bytes."""
    return zlib.compress(pickle.dumps(value, protocol=5), 1)


def load(data: bytes, where: str) -> Any:
    """The value again; LocalError, which names ``where``, when it is damaged or of another make."""
    try:
        return _Careful(io.BytesIO(zlib.decompress(data))).load()
    except (zlib.error, pickle.UnpicklingError, AttributeError, ImportError, EOFError, TypeError, ValueError) as error:
        raise LocalError(f"{where}: damaged, or kept by another version: {error}") from None


class _Careful(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        """Only what `dump` is given."""
        if (module, name) in _PLAIN or (module.startswith("pcli.") and "." not in name):
            found = super().find_class(module, name)
            if (module, name) in _PLAIN or isinstance(found, type):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} does not belong there")
