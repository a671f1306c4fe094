"""The removal of passwords from URIs. Tables and messages must not contain passwords.

Rules of this file
1. In ``s3://key:secret@bucket/a``, the part before ``@`` is hidden: ``s3://***@bucket/a``. A name without a password is
   not hidden, because it is a user (HDFS) or a container (Azure).
2. In the query, the value of every parameter whose name contains secret, token, password or key is hidden.
3. An unquoted secret that contains ``/`` is also hidden, because the error message that rejects this URI contains the
   URI.
4. The complete name (`pcli.spark.input.capture_files.CaptureFile.where`) is used only to open the file and is never
   written.
"""

from __future__ import annotations

import os
import re
from typing import Final

_STARS: Final = "***"

_USER: Final = re.compile(r"(?<=://)[^\s/?#@:]*:(?!\d+(?:[/?#]|$))(?:[^\s/?#]*@|\S*?@)")
"""User name and password. A port is not a password."""

_ASKED: Final = re.compile(r"([?&][^=&\s]*(?:secret|token|password|key)[^=&\s]*=)[^&\s]*", re.IGNORECASE)


def hidden(text: str) -> str:
    """Replace the passwords of all URIs in a name or message."""
    if "://" not in text:
        return text
    return _ASKED.sub(rf"\1{_STARS}", _USER.sub(f"{_STARS}@", text))


def shown(name: str) -> str:
    """Return a name with invalid UTF-8 bytes escaped in hex, because Arrow accepts only UTF-8."""
    return os.fsencode(name).decode(errors="backslashreplace")
