"""A child of the stack is restarted when it dies, and leaves nothing behind when it ends."""

import sys

import pytest

from lakeui.local_stack.child import Child, Program
from tests.services import wait_until

FOREVER = "import signal; signal.pause()"
WITH_FAMILY = (
    "import subprocess, sys, signal; "
    f"subprocess.Popen([sys.executable, '-c', {FOREVER!r}], process_group=0); signal.pause()"
)


class HandClock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic_s(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def child_of(tmp_path, clock):
    started: list[Child] = []

    def start(code: str, **more) -> Child:
        program = Program("child", (sys.executable, "-c", code), **more)
        child = Child(program, tmp_path / "child.log", clock)
        started.append(child)
        child.start()
        return child

    yield start
    for child in started:
        child.kill()


def test_a_child_that_dies_is_reported_and_starts_again_after_a_pause(child_of, clock):
    child = child_of("raise SystemExit(3)")
    wait_until(lambda: not child.is_running(), "its end")
    assert "ended with 3" in child.supervise()
    assert child.supervise() == ""
    assert not child.is_running()
    clock.pause(1)
    child.supervise()
    wait_until(lambda: not child.is_running(), "its second end")
    assert "2 s" in child.supervise()


def test_a_program_that_is_to_run_once_is_not_started_again(child_of):
    child = child_of("pass", once=True)
    wait_until(lambda: not child.is_running(), "its end")
    assert child.supervise() == ""
    assert child.done


def test_ending_a_child_ends_what_it_started_even_in_groups_of_their_own(child_of):
    child = child_of(WITH_FAMILY)
    wait_until(lambda: len(child.leftovers()) == 2, "the grandchild")
    child.terminate()
    wait_until(lambda: not child.is_running(), "its end")
    child.kill()
    wait_until(lambda: child.leftovers() == [], "nothing to be left")


def test_a_child_asked_to_end_still_has_what_it_started_until_it_has_ended(child_of, tmp_path):
    told = tmp_path / "told"
    family = (
        "import signal, subprocess, sys, time\n"
        "one = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "def end(*_):\n"
        "    try:\n"
        "        said = f'ended with {one.wait(0.5)}'\n"
        "    except subprocess.TimeoutExpired:\n"
        "        said = 'alive'\n"
        f"    open({str(told)!r}, 'w').write(said)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('there', flush=True)\n"
        "time.sleep(60)\n"
    )
    child = child_of(family)
    wait_until(lambda: "there" in child.last_lines(), "its start")
    child.terminate()
    wait_until(lambda: not child.is_running(), "its end")
    assert told.read_text() == "alive"
    child.kill()
    wait_until(lambda: child.leftovers() == [], "nothing to be left")


def test_what_is_written_to_a_child_reaches_it(child_of):
    child = child_of("import sys; print(sys.stdin.read())", input="hello", once=True)
    wait_until(lambda: not child.is_running(), "its end")
    assert child.last_lines() == "hello"
