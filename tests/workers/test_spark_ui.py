"""Spark's own pages of a worker: served only if enabled, and only to this machine."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

_WORKER = """
import json, os, socket, urllib.request
from urllib.parse import urlsplit
import django
django.setup()
from workers import spark_session
spark_session.start()
told = spark_session.cluster()
since, until = spark_session.start_times()
is_told = told.application == spark_session.application() != "" and since < until
said = {"ui": told.ui, "is_told": is_told}
if told.ui:
    with urllib.request.urlopen(told.ui + "/stages/stage/?id=0&attempt=0") as answer:
        said["page"] = answer.read().decode()
    with socket.socket() as outside:
        said["elsewhere"] = outside.connect_ex(("127.0.0.2", urlsplit(told.ui).port))
    with urllib.request.urlopen(told.ui + "/executors/threadDump/?executorId=driver") as answer:
        said["threads"] = "Thread dump" in answer.read().decode()
spark_session._SessionHolder.archive = None  # no JVM comes after it that would use its classes
spark_session.stop()
os.write(3, json.dumps(said).encode())
"""


def start_spark(tmp_path, **more: str) -> dict:
    """Return the report of a worker's Spark, in a separate process."""
    told = tmp_path / "told.json"
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "lakeui.settings",
        "LAKEUI_HOME": str(tmp_path),
        "SECRET_KEY": "for-tests-only-for-tests-only-for-tests-only",
        "SPARK_MASTER": "local[1]",
        **more,
    }
    with told.open("wb") as output:
        script = f"import os; os.dup2({output.fileno()}, 3)\n{_WORKER}"
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", script],
            env=environment, pass_fds=[output.fileno()], check=True, timeout=200, stderr=subprocess.PIPE,
        )  # fmt: skip
    return json.loads(told.read_text())


@pytest.mark.stress
def test_sparks_pages_are_served_to_this_machine_alone_and_only_show(tmp_path):
    told = start_spark(tmp_path, SPARK_UI="true")
    assert told["ui"].startswith("http://127.0.0.1:")
    assert told["is_told"]
    assert "Details for Stage 0" in told["page"]
    assert told["elsewhere"] != 0
    assert not told["threads"]


@pytest.mark.parametrize("address", ["javascript:alert(1)", "spark.example.org", "//spark"])
def test_an_address_of_them_that_no_browser_may_be_led_to_is_refused_at_the_start(
    tmp_path, address
):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        start_spark(tmp_path, SPARK_UI_URL=address)
    assert b"SPARK_UI_URL is not a URL" in refused.value.stderr
