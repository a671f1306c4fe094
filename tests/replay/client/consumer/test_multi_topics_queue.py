"""The common queue of several consumers: which consumers wait, and for how long."""

from collections import deque

from pcli.replay.client.consumer.multi_topics_queue import MultiTopicsQueue


class Queue:
    def __init__(self, size, messages):
        self.size, self.messages = size, deque(messages)


class Child:
    """The part of a consumer that the queue uses."""

    def __init__(self, size, count, name):
        self.queue = Queue(size, [f"{name}{n}" for n in range(count)])

    def receive(self):
        return self.queue.messages.popleft() if self.queue.messages else None


def test_a_child_waits_when_the_queue_is_full():
    queue, child = MultiTopicsQueue(4), Child(4, 9, "a")
    queue.fill(child)
    assert list(queue.messages) == ["a0", "a1", "a2", "a3"]
    queue.fill(child)
    assert len(queue.messages) == 4
    for _ in range(2):
        queue.messages.popleft()
        queue.go_on()
    assert list(queue.messages) == ["a2", "a3", "a4", "a5"]


def test_above_half_a_child_waits_after_other_children():
    queue, first, second = MultiTopicsQueue(4), Child(4, 9, "a"), Child(2, 2, "b")
    queue.fill(first)
    queue.messages.popleft()
    queue.fill(second)
    assert list(queue.messages) == ["a1", "a2", "a3", "b0"]
    for _ in range(2):
        queue.messages.popleft()
        queue.go_on()
    assert list(queue.messages) == ["a3", "b0", "a4", "a5"]
    for _ in range(2):
        queue.messages.popleft()
        queue.go_on()
    assert list(queue.messages) == ["a4", "a5", "b1"]


def test_no_messages_are_moved_during_a_seek():
    queue, child = MultiTopicsQueue(4), Child(4, 1, "a")
    queue.held = True
    queue.fill(child)
    assert not queue.messages


def test_a_removed_child_no_longer_waits():
    queue, child = MultiTopicsQueue(2), Child(2, 9, "a")
    queue.fill(child)
    queue.remove_child(child)
    queue.messages.clear()
    queue.go_on()
    assert not queue.messages
