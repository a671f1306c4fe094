"""JSON written by strangers: parsed so that what comes out can be written as JSON again.

Rules of this file
1. Depth is Python's own limit, sizes are those of the text; both end in a Problem.
2. What JSON has no word for (``NaN``, a number beyond a double) is a string. Half of a surrogate pair is a Problem:
   no output could be encoded with it.
"""

from __future__ import annotations

import json
from typing import Any

from pcli.codec.payload.primitives import number
from pcli.codec.wire.problems import Problem

__all__ = ["parse_json"]


def parse_json(data: bytes) -> Any:
    """The value of a JSON text, made of dict, list, str, int, float, bool and None; a Problem when it is none."""
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
        # No text at all, or a whole number of more digits than Python converts.
        return Problem("schema", f"not JSON: {len(data)} bytes with an invalid character or number")
    return value


def _float(text: str) -> float | str:
    return number(float(text))
