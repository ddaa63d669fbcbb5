"""A child of the stack is restarted after it dies, and leaves nothing behind when it ends."""

import os
import subprocess
import sys

import pytest

from lakeui.local_stack.child import MARK, Child, Program, _stat_of, end_orphans, remember
from lakeui.local_stack.preflight import port_problem
from tests.services import wait_until

FOREVER = "import signal; signal.pause()"
WITH_FAMILY = (
    "import subprocess, sys, signal; "
    f"subprocess.Popen([sys.executable, '-c', {FOREVER!r}], process_group=0); signal.pause()"
)

LISTENS_AND_ENDS_SLOWLY = (
    "import signal, socket; "
    "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); "
    "much = bytearray(b'x') * 150_000_000; "  # the system takes it back before it closes the port
    "print(s.getsockname()[1], flush=True); signal.pause()"
)
THREADS_WITHOUT_THE_FIRST = (
    "import ctypes, threading, signal; "
    "threading.Thread(target=signal.pause).start(); print('there', flush=True); "
    "ctypes.CDLL(None).pthread_exit(None)"
)


class HandClock:
    """A clock that a test advances."""

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


def test_a_program_for_one_run_is_not_started_again(child_of):
    child = child_of("pass", once=True)
    wait_until(lambda: not child.is_running(), "its end")
    assert child.supervise() == ""
    assert child.done


def test_ending_a_child_ends_its_own_children_even_in_separate_groups(child_of):
    child = child_of(WITH_FAMILY)
    wait_until(lambda: len(child.leftovers()) == 2, "the grandchild")
    child.terminate()
    wait_until(lambda: not child.is_running(), "its end")
    child.kill()
    wait_until(lambda: child.leftovers() == [], "nothing to be left")


def test_a_child_asked_to_end_keeps_its_own_children_until_it_has_ended(child_of, tmp_path):
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
    wait_until(lambda: child.log.exists() and "there" in child.log.read_text(), "its start")
    child.terminate()
    wait_until(lambda: not child.is_running(), "its end")
    assert told.read_text() == "alive"
    child.kill()
    wait_until(lambda: child.leftovers() == [], "nothing to be left")


def test_input_written_to_a_child_reaches_it(child_of):
    child = child_of("import sys; print(sys.stdin.read())", input="hello", once=True)
    wait_until(lambda: not child.is_running(), "its end")
    assert child.log.read_text().strip() == "hello"


@pytest.fixture
def orphan(tmp_path):
    """Start a process as a stack of this directory would; return the first line that it prints."""
    started = []

    def start(code: str, **environment: str) -> tuple[int, str]:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", code],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process.pid, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.wait(10)
        process.stdout.close()


def test_the_port_of_an_orphan_is_free_once_orphans_were_ended(tmp_path, orphan):
    pid, port = orphan(LISTENS_AND_ENDS_SLOWLY, **{MARK: str(tmp_path)})
    assert port_problem(int(port))
    assert end_orphans(tmp_path) == []
    assert port_problem(int(port)) == ""
    assert _stat_of(pid) == []


def test_an_orphan_that_hides_its_environment_is_found_by_the_stacks_notes(
    tmp_path, orphan, child_of
):
    (tmp_path / "run").mkdir()
    child = child_of(FOREVER)
    remember([child], tmp_path)
    other, _ = orphan(f"print(); {FOREVER}")
    assert end_orphans(tmp_path) == []
    assert not child.is_running()
    assert _stat_of(other)


def test_the_stack_of_another_directory_is_left_alone(tmp_path, orphan):
    pid, _ = orphan(f"print(); {FOREVER}", **{MARK: str(tmp_path / "other")})
    assert end_orphans(tmp_path) == []
    assert _stat_of(pid)


def test_a_process_whose_first_thread_has_ended_still_runs(orphan):
    pid, _ = orphan(THREADS_WITHOUT_THE_FIRST)
    wait_until(lambda: _state_of(pid) == "Z", "the first thread to end")
    assert _stat_of(pid)


def _state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # noqa: PTH123 - of the system
        return file.read().rpartition(")")[2].split()[0]
