"""The index of responses: the first response is stored, and distant requests cost only their slots."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from pcli.codec.observe import Observer, answer_index
from pcli.codec.observe.two_pass import AnswerIndex


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 10**6))))
def test_the_index_is_a_dictionary(pairs):
    index, plain = AnswerIndex(), {}
    for request, answer in pairs:
        index.note(SimpleNamespace(request_number=request, frame=SimpleNamespace(number=answer)))
        if request:
            plain.setdefault(request, answer)
    assert [index.answer_to(number) for number in range(600)] == [plain.get(number, 0) for number in range(600)]


def test_both_passes_over_a_capture_agree(small):
    """The response to a request, and the request of that response, are the same pair."""
    frames = small.frames("java/schemas")
    observer = Observer(answers=answer_index(frames))
    facts = {frame.number: observer.see(frame) for frame in frames}
    answered = {number: one.answer_number for number, one in facts.items() if one.answer_number}
    assert len(answered) > 50
    assert all(facts[answer].request_number == request for request, answer in answered.items())
    back = {one.request_number for one in facts.values() if one.request_number}
    assert back == answered.keys()
