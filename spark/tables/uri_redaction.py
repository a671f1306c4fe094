"""Removes passwords from URIs, which must not appear in tables or messages.

Rules of this file
1. In ``s3://key:secret@bucket/a``, the part before ``@`` is hidden: ``s3://***@bucket/a``. A name without a password is
   kept: it is a user (HDFS) or a container (Azure).
2. In the query, the value of every parameter whose name contains secret, token, password or key is hidden.
3. An unquoted secret that contains ``/`` is hidden, too: such a URI is rejected, and the message repeats it.
4. The complete name (`pcli.spark.input.capture_files.Found.where`) is used only to open the file and is never written.
"""

from __future__ import annotations

import os
import re
from typing import Final

__all__ = ["hidden", "shown"]

_STARS: Final = "***"

_USER: Final = re.compile(r"(?<=://)[^\s/?#@:]*:(?!\d+(?:[/?#]|$))(?:[^\s/?#]*@|\S*?@)")
"""Name and password; a port is not a password."""

_ASKED: Final = re.compile(r"([?&][^=&\s]*(?:secret|token|password|key)[^=&\s]*=)[^&\s]*", re.IGNORECASE)


def hidden(text: str) -> str:
    """Return a name or message without the passwords of the URIs in it."""
    if "://" not in text:
        return text
    return _ASKED.sub(rf"\1{_STARS}", _USER.sub(f"{_STARS}@", text))


def shown(name: str) -> str:
    """Return a name as it is. If it is not UTF-8, escape the invalid bytes in hex: Arrow accepts only UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")
