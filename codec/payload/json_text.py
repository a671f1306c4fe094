"""Parser for untrusted JSON whose result can be written as JSON again.

Rules of this file
1. Python limits the nesting depth and the digits of an integer. JSON that exceeds a limit is a Problem.
2. Values that JSON cannot represent (``NaN``, a number beyond a double) are strings. A lone surrogate is a Problem,
   because it cannot be encoded in any output.
"""

from __future__ import annotations

import json
from typing import Any

from pcli.codec.payload.primitives import number
from pcli.codec.wire.problems import Problem


def parse_json(data: bytes) -> Any:
    """Return the value of JSON as dict, list, str, int, float, bool or None, or a Problem if the JSON is invalid."""
    try:
        value = json.loads(data, parse_constant=str, parse_float=_float)
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return Problem("schema", "JSON with half of a surrogate pair")
    except json.JSONDecodeError as error:
        return Problem("schema", f"not JSON: {error.msg} at character {error.pos}")
    except RecursionError:
        return Problem("schema", "JSON that is nested too deeply")
    except ValueError:
        # Invalid text, or an integer with more digits than Python converts.
        return Problem("schema", f"not JSON: {len(data)} bytes with an invalid character or number")
    return value


def _float(text: str) -> float | str:
    return number(float(text))
