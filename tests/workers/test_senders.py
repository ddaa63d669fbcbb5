"""A light worker's threads for tasks that wait on external servers."""

import threading

from tests.services import wait_until
from workers.periodic_tasks import Senders


class Sending:
    """A sender that blocks until it is released, and records a request to end."""

    def __init__(self):
        self.began, self.goes_on, self.times, self.asked_to_end = (
            threading.Event(), threading.Event(), 0, None,
        )  # fmt: skip

    def __call__(self, *, ends):
        self.times += 1
        self.began.set()
        self.goes_on.wait(30)
        self.asked_to_end = ends()


def test_a_hanging_delivery_holds_up_only_its_own_key():
    senders, hanging, other = Senders(2), Sending(), Sending()
    assert senders.take("dead", hanging)
    assert hanging.began.wait(10)
    assert not senders.take("dead", hanging)
    assert senders.take("alive", other)
    assert other.began.wait(10)
    hanging.goes_on.set()
    other.goes_on.set()
    wait_until(lambda: senders.take("dead", hanging), "the place to be free")


def test_a_fault_leaves_the_place_free(caplog):
    senders, later = Senders(1), Sending()

    def fails(*, ends):
        msg = f"the database is unreachable, and ends is {ends()}"
        raise OSError(msg)

    assert senders.take("one", fails)
    wait_until(lambda: senders.take("one", later), "the place to be free")
    later.goes_on.set()
    assert "The messages of one could not be sent" in caplog.text


def test_a_worker_that_ends_begins_nothing_more_and_informs_running_deliveries():
    senders, sending = Senders(1), Sending()
    senders.take("one", sending)
    assert sending.began.wait(10)
    senders.end()
    assert not senders.take("two", Sending())
    sending.goes_on.set()
    wait_until(lambda: sending.asked_to_end is not None, "the answer")
    assert sending.asked_to_end
