"""Names of files as they are told: a URI may have a password, and nobody who reads tables or messages is to see it.

Rules of this file
1. Of ``s3://key:secret@bucket/a``, what stands before ``@`` is hidden: ``s3://***@bucket/a``. A name without a password
   stays: it is a user (HDFS) or a container (Azure).
2. So is what the query says of anything that is called a secret, a token, a password or a key.
3. A secret that was not quoted, with a ``/`` in it, is hidden too: such a URI is refused, and the message repeats it.
4. What opens a file has the whole name (`pcli.spark.input.capture_files.Found.where`). It is never written down.
"""

from __future__ import annotations

import os
import re
from typing import Final

__all__ = ["hidden", "shown"]

_STARS: Final = "***"

_USER: Final = re.compile(r"(?<=://)[^\s/?#@:]*:(?!\d+(?:[/?#]|$))(?:[^\s/?#]*@|\S*?@)")
"""Name and password; a port is none."""

_ASKED: Final = re.compile(r"([?&][^=&\s]*(?:secret|token|password|key)[^=&\s]*=)[^&\s]*", re.IGNORECASE)


def hidden(text: str) -> str:
    """A name or a message without the passwords of the URIs in it."""
    if "://" not in text:
        return text
    return _ASKED.sub(rf"\1{_STARS}", _USER.sub(f"{_STARS}@", text))


def shown(name: str) -> str:
    """A name as it is; of one that is not UTF-8, all that Arrow can say, the odd bytes are written out in hex."""
    return os.fsencode(name).decode(errors="backslashreplace")
