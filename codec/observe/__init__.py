"""What is known of a frame in its conversation, and how people and programs ask for it.

- observer.py: Observer.see, one frame after the other: names behind ids, answers, latency (state, learning, pairing,
  system, twopass)
- fields.py: the table of fields (field, general, ids, leaves), made from the descriptors by plans.py; walk.py reads
  the bytes along a plan, values.py says what values look like
- flatten.py: a frame as one flat object
- filter.py: the filter language
"""

from pcli.codec.observe.field import Field
from pcli.codec.observe.fields import all_fields, describe_fields, find_field
from pcli.codec.observe.filter import Filter, compile_filter
from pcli.codec.observe.flatten import column, flatten, show
from pcli.codec.observe.general import problems_of
from pcli.codec.observe.observer import Observer, answer_index
from pcli.codec.observe.state import Consumer, Facts, ObservedFrame, Producer, Request
from pcli.codec.observe.twopass import AnswerIndex

__all__ = [
    "AnswerIndex",
    "Consumer",
    "Facts",
    "Field",
    "Filter",
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
