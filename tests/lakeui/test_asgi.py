"""The web server's entry has loaded what pages and REST need before the first request comes."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from lakeui.local_stack.preflight import free_port, listens
from tests.services import ROOT, wait_until

pytestmark = pytest.mark.timeout(180)

PROGRAM = """
import sys
import lakeui.asgi
print(all(name in sys.modules for name in ("lakeui.pages.urls", "lakeui.api.urls", "lakeui.api.jobs")))
"""


def test_addresses_are_loaded_before_the_first_request():
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == "True"


def test_a_killed_parent_leaves_no_process_on_the_port(tmp_path):
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "lakeui.asgi:application", "--port", str(port)]
    with (tmp_path / "log").open("w") as log:
        parent = subprocess.Popen(  # noqa: S603 - this interpreter
            [*command, "--workers", "2", "--timeout-graceful-shutdown", "2"],
            cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        started = (tmp_path / "log").read_text
        wait_until(lambda: listens(port) and "startup complete" in started(), "a start", 120)
        parent.kill()
        parent.wait()
        wait_until(lambda: not listens(port), "the end of the children", 60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
