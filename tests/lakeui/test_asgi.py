"""The web server's entry has loaded what pages and REST need before the first request comes."""

import subprocess
import sys

import pytest

from tests.services import ROOT

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
