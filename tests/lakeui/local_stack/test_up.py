"""`manage.py up` answers within seconds, keeps its children alive and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from lakeui.local_stack.child import _pids, _session_of
from tests.ports import port_for_later
from tests.services import ROOT, wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("up")]  # one stack


class Up:
    """A running stack, without Spark unless requested."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home, self.port, self.options = home, port_for_later(), options
        self.log = home.parent / "up.log"
        self.process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        environment = {k: v for k, v in os.environ.items() if k not in _OURS}
        with self.log.open("w") as out:
            return subprocess.Popen(  # noqa: S603
                [sys.executable, "manage.py", "up", "--port", str(self.port), *self.options],
                cwd=ROOT,
                env={**environment, "LAKEUI_HOME": str(self.home)},
                stdout=out,
                stderr=subprocess.STDOUT,
                umask=0,  # what the stack keeps is for its owner alone all the same
            )

    def answers(self, path: str = "/login/") -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as page:
                return page.status == 200
        except OSError:
            return False

    def children(self) -> dict[int, str]:
        """Return the child processes by their sessions: each child leads one."""
        parents = {pid: _parent_of(pid) for pid in _pids()}
        leaders = [pid for pid, parent in parents.items() if parent == self.process.pid]
        return {pid: _command_of(pid) for pid in _pids() if _session_of(pid) in leaders}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)

    def stop_if_running(self) -> None:
        if self.process.poll() is None:
            self.stop()


_OURS = {"SECRET_KEY", "DATABASE_URL", "BROKER_URL", "LAKEUI_EMBEDDED", "DJANGO_SETTINGS_MODULE"}


@pytest.fixture(scope="module")
def stack(tmp_path_factory) -> Iterator[Up]:
    stack = Up(tmp_path_factory.mktemp("up") / "home", "--no-spark")
    yield stack
    stack.stop_if_running()


@pytest.fixture
def stack_up(stack) -> Up:
    """Wait until the stack answers and has printed all its startup messages."""
    if stack.process.poll() is not None:
        stack.process = stack.start()
    wait_until(lambda: "Press Ctrl-C" in stack.log.read_text(), "the last line of the start", 60)
    wait_until(stack.answers, "the first page", 60)
    return stack


def test_the_link_signs_in_and_guesses_are_slowed_down_wherever_they_say_they_come_from(stack_up):
    link = re.search(r"(/login/\S+)", stack_up.log.read_text())
    assert link is not None
    assert stack_up.answers(link[1])
    assert [sign_in(stack_up, f"203.0.113.{n}") for n in range(6)] == [400] * 5 + [429]


def test_a_web_server_that_died_is_started_again(stack_up):
    web = next(pid for pid, command in stack_up.children().items() if "uvicorn" in command)
    os.kill(web, signal.SIGKILL)
    wait_until(lambda: "web ended with -9" in stack_up.log.read_text(), "the report of its death")
    wait_until(stack_up.answers, "the web server to be back", 60)


@pytest.mark.stress
def test_a_second_stack_is_refused_until_the_first_was_killed_and_is_cleared_away(stack_up):
    first = stack_up.process
    second = stack_up.start()
    assert second.wait(60) == 1
    assert "is already running" in stack_up.log.read_text()
    orphans = stack_up.children()
    first.kill()
    first.wait(10)
    stack_up.process = stack_up.start()
    wait_until(lambda: "answers at" in stack_up.log.read_text(), "the third start", 60)
    assert [pid for pid in orphans if _session_of(pid) is not None] == []
    wait_until(stack_up.answers, "the first page", 60)


def test_an_interrupted_stack_leaves_nothing_behind(stack_up):
    wait_until(lambda: "ready" in _log(stack_up, "light-worker"), "the light worker", 60)
    children = stack_up.children()
    assert len(children) >= 4
    assert open_to_others(stack_up.home) == []
    stack_up.stop()
    assert stack_up.process.returncode == 0
    assert "Everything has stopped." in stack_up.log.read_text()
    assert [pid for pid in children if _session_of(pid) is not None] == []
    assert not (stack_up.home / "run/broker_url").exists()


@pytest.mark.stress
def test_interrupting_the_start_prints_no_traceback(tmp_path):
    up = Up(tmp_path / "home", "--no-spark")
    try:
        wait_until(lambda: "Starting" in up.log.read_text(), "the start", 60)
    finally:
        up.stop()
    assert "Traceback" not in up.log.read_text()
    assert "topped." in up.log.read_text()


def open_to_others(home: Path) -> list[Path]:
    """Return the stack's files that others can read, except tables, which may be shared."""
    kept = (path for path in home.rglob("*") if "lake" not in path.relative_to(home).parts)
    return [path for path in kept if path.stat().st_mode & 0o077]


def sign_in(up: Up, forwarded: str) -> int:
    """Return the answer to a wrong password, sent with a client address made up by the client."""
    address = f"http://127.0.0.1:{up.port}/login/"
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    page = browser.open(address, timeout=10).read().decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    form = {"username": "admin", "password": "wrong", "csrfmiddlewaretoken": token[1]}
    headers = {"X-Forwarded-For": forwarded}
    request = urllib.request.Request(address, urlencode(form).encode(), headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        browser.open(request, timeout=10)
    refused.value.close()
    return refused.value.code


def _log(up: Up, name: str) -> str:
    return (up.home / "logs" / f"{name}.log").read_text()


def _parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
