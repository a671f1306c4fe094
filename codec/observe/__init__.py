"""Observation of frames: the names behind ids, request/response pairing, fields, filters, tracking and findings.

- observer.py: `Observer.see` processes one frame at a time and returns its `Facts`. It uses observer_state,
  connection_updates, request_pairing, system_topics and two_pass.
- decoding: protobuf bytes to values. fields: the table of fields. filters: `-Y`. output: text and JSON.
- tracking: producers, consumers, permits and message lifecycles. rules: one file for each finding; diagnosis.py runs
  them.
- redaction: removal of names and payloads from captures.
"""

from typing import TYPE_CHECKING

from pcli.codec.lazy_names import lazy_names

if TYPE_CHECKING:
    from pcli.codec.observe.fields.field import Field
    from pcli.codec.observe.fields.field_table import all_fields, describe_fields, find_field
    from pcli.codec.observe.fields.general_fields import problems_of
    from pcli.codec.observe.filters.filter import Filter, compile_filter
    from pcli.codec.observe.observer import Observer, answer_index
    from pcli.codec.observe.observer_state import Consumer, Facts, LayoutUpdate, ObservedFrame, Producer, Request
    from pcli.codec.observe.output.frame_json import column, flatten, show
    from pcli.codec.observe.two_pass import AnswerIndex

__all__ = [
    "AnswerIndex",
    "Consumer",
    "Facts",
    "Field",
    "Filter",
    "LayoutUpdate",
    "ObservedFrame",
    "Observer",
    "Producer",
    "Request",
    "all_fields",
    "answer_index",
    "column",
    "compile_filter",
    "describe_fields",
    "find_field",
    "flatten",
    "problems_of",
    "show",
]

__getattr__ = lazy_names(
    __name__,
    {
        "fields.field": "Field",
        "fields.field_table": "all_fields describe_fields find_field",
        "fields.general_fields": "problems_of",
        "filters.filter": "Filter compile_filter",
        "observer": "Observer answer_index",
        "observer_state": "Consumer Facts LayoutUpdate ObservedFrame Producer Request",
        "output.frame_json": "column flatten show",
        "two_pass": "AnswerIndex",
    },
)
