"""The archive of Spark's classes: written by one JVM, used by the next, never in the way."""

import json
import os
import subprocess
import sys

import pytest

from engine.spark.class_archive import ClassArchive

PROGRAM = """
import json, sys
from pathlib import Path
from engine.spark.class_archive import ClassArchive
from engine.spark.session import build_session
archive = ClassArchive(Path(sys.argv[1]))
with archive.used():
    session = build_session("archive", master="local[1]")
rows = session.range(3).count()
options = session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
print(json.dumps({"rows": rows, "options": list(options), "kept": archive.keep(session)}))
session.stop()
"""


def _run(place) -> dict:
    command = [sys.executable, "-c", PROGRAM, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)  # noqa: S603 - ours
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _uses(place, options) -> bool:
    return any(option.startswith(f"-XX:SharedArchiveFile={place}") for option in options)


@pytest.mark.timeout(180)
def test_the_first_jvm_keeps_its_classes_and_the_next_ones_use_them(tmp_path):
    place = tmp_path / "a home of classes"
    place.mkdir()
    (place / "spark-of-an-older-java.jsa").touch()
    first = _run(place)
    assert (first["rows"], first["kept"], _uses(place, first["options"])) == (3, True, False)
    [archive] = place.iterdir()  # those of other Javas are gone
    assert archive.stat().st_mode & 0o777 == 0o600
    second = _run(place)
    assert (second["rows"], second["kept"], _uses(place, second["options"])) == (3, False, True)


@pytest.mark.stress
def test_a_jvm_starts_without_an_archive_that_is_damaged(tmp_path):
    _run(tmp_path)
    [archive] = tmp_path.iterdir()
    archive.write_bytes(b"no archive at all")
    damaged = _run(tmp_path)
    assert (damaged["rows"], _uses(tmp_path, damaged["options"])) == (3, True)


def test_the_environment_is_as_before(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    with ClassArchive(tmp_path).used():
        assert "RecordDynamicDumpInfo" in os.environ["SPARK_SUBMIT_OPTS"]
    assert "SPARK_SUBMIT_OPTS" not in os.environ
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dtheirs=1")
    with ClassArchive(tmp_path).used():
        assert os.environ["SPARK_SUBMIT_OPTS"].startswith("-Dtheirs=1 ")
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dtheirs=1"
