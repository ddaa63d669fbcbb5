"""Active writers in this process, and in a fork of it."""

import os
import signal

from engine.operations import run_options
from engine.operations.run_options import list_active_writers, oldest_start_ms, track_operation

PLACE = "/nowhere/t"


def _begin_in_fork() -> tuple[str, ...]:
    with track_operation(PLACE, 7, "a write of the fork"):
        return list_active_writers(PLACE)


def test_a_fork_begins_with_nothing_running_and_waits_for_no_thread_of_its_parent():
    with track_operation(PLACE, 5), run_options._lock:
        child = os.fork()
        if not child:
            signal.alarm(30)  # where it waits
            os._exit(0 if _begin_in_fork() == ("a write of the fork",) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_fork_leaves_its_parents_writers_alone():
    operation = track_operation(PLACE, 5)
    operation.__enter__()
    child = os.fork()
    if not child:
        operation.__exit__(None, None, None)
        os._exit(0 if oldest_start_ms(PLACE) is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert oldest_start_ms(PLACE) == 5
    operation.__exit__(None, None, None)
    assert oldest_start_ms(PLACE) is None
