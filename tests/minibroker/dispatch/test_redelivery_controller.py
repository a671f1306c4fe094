"""Entries that wait for redelivery, compared with a simple model."""

from hypothesis import given
from hypothesis import strategies as st

from pcli.minibroker.dispatch.redelivery_controller import MessageRedeliveryController

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "forget", "below"]), st.integers(0, 30), st.integers(0, 4)), max_size=60
)


@given(STEPS, st.integers(1, 40))
def test_the_lowest_offsets_come_first(steps, count):
    controller, model = MessageRedeliveryController(), {}
    for what, offset, slot in steps:
        if what == "add":
            controller.add(offset, slot)
            model[offset] = model.get(offset) or slot
        elif what == "below":
            controller.forget_below(offset)
            model = {one: kept for one, kept in model.items() if one >= offset}
        else:
            getattr(controller, what)(offset)
            model.pop(offset, None)
        assert len(controller) == len(model)
        assert [controller.holds(one) for one in range(1, 5)] == [one in model.values() for one in range(1, 5)]
    assert controller.lowest(count) == sorted(model)[:count]
    assert controller.lowest(count) == sorted(model)[:count]  # the call removes nothing
    odd = controller.lowest(count, lambda offset, slot: offset % 2 == 1 and model[offset] == slot)
    assert odd == [one for one in sorted(model) if one % 2][:count]


def test_only_redeliver_increases_the_count():
    controller = MessageRedeliveryController()
    controller.add(3)
    controller.count([3, 4])
    controller.count([3])
    assert controller.counts == {3: 2, 4: 1}
    controller.remove(3)
    assert controller.counts == {3: 2, 4: 1}
    controller.forget(3)
    assert controller.counts == {4: 1}
