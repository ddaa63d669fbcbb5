"""The archive of Spark's classes: written by one JVM, used by the next, and never an obstacle."""

import json
import os
import subprocess
import sys
import zlib

import pytest
from pyspark.errors import PySparkRuntimeError

from engine.spark import class_archive
from engine.spark.class_archive import ClassArchive

PROGRAM = """
import json, sys
from pathlib import Path
from engine.spark.class_archive import ClassArchive
from engine.spark.session import build_session
archive = ClassArchive(Path(sys.argv[1]))
session = archive.start(lambda: build_session("archive", master="local[1]"))
rows = session.range(3).count()
options = session._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
print(json.dumps({"rows": rows, "options": list(options), "kept": archive.keep(session)}))
session.stop()
"""


def _run(place) -> dict:
    command = [sys.executable, "-c", PROGRAM, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)  # noqa: S603 - ours
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _uses(place, options) -> bool:
    return any(option.startswith(f"-XX:SharedArchiveFile={place}") for option in options)


@pytest.mark.stress
@pytest.mark.spark
@pytest.mark.timeout(500)
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
@pytest.mark.spark
@pytest.mark.timeout(750)
def test_a_damaged_archive_is_not_used_and_is_replaced(tmp_path):
    """The damage is in the middle of the classes, where a JVM does not look before it runs them."""
    _run(tmp_path)
    [archive] = tmp_path.iterdir()
    with archive.open("r+b") as content:
        content.seek(archive.stat().st_size // 2)
        content.write(os.urandom(4096))
    damaged = _run(tmp_path)
    assert (damaged["rows"], damaged["kept"], _uses(tmp_path, damaged["options"])) == (
        3,
        True,
        False,
    )
    assert _uses(tmp_path, _run(tmp_path)["options"])


def _file_of(archive, content: bytes):
    return archive._directory / f"{archive._stem}-{zlib.crc32(content):08x}.jsa"


def test_a_damaged_archive_is_skipped_and_deleted(tmp_path):
    archive = ClassArchive(tmp_path / "classes")
    assert archive._sound() is None
    archive._directory.mkdir()
    whole = _file_of(archive, b"classes")
    whole.write_bytes(b"classes")
    assert archive._sound() == whole
    whole.write_bytes(b"class")  # truncated
    assert archive._sound() is None
    assert not whole.exists()
    elsewhere = tmp_path / "of somebody else"
    elsewhere.write_bytes(b"classes")
    whole.symlink_to(elsewhere)
    assert archive._sound() is None
    assert not whole.is_symlink()
    assert elsewhere.read_bytes() == b"classes"
    whole.mkdir()  # which stays, and is in nobody's way
    assert archive._sound() is None


def test_an_archive_that_a_jvm_refuses_is_deleted(tmp_path):
    archive = ClassArchive(tmp_path)
    refused = _file_of(archive, b"classes")
    refused.write_bytes(b"classes")
    first, second = _options_at_start(archive)
    assert "SharedArchiveFile" in first
    assert "SharedArchiveFile" not in second
    assert not refused.exists()


@pytest.mark.stress
def test_a_jvm_without_archives_starts_without_one(tmp_path, monkeypatch):
    """A JVM may have been built without an archive of its own classes."""
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xshare:off")
    plain = _run(tmp_path)
    assert (plain["rows"], plain["kept"]) == (3, False)


def _options_at_start(archive) -> list[str]:
    """Return `SPARK_SUBMIT_OPTS` at each attempt to start; the first attempt fails."""
    seen = []

    def build():
        seen.append(os.environ.get("SPARK_SUBMIT_OPTS", ""))
        if len(seen) == 1:
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
        return seen

    return archive.start(build)


@pytest.mark.parametrize("theirs", ["", "-Dtheirs=1"])
def test_a_jvm_that_refuses_is_started_as_its_user_has_it(tmp_path, monkeypatch, theirs):
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    if theirs:
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", theirs)
    first, second = _options_at_start(ClassArchive(tmp_path))
    assert first.startswith(theirs)
    assert "RecordDynamicDumpInfo" in first
    assert second == os.environ.get("SPARK_SUBMIT_OPTS", "") == theirs


@pytest.mark.parametrize("name", ["a:b:c", 'a"b', "a\\b"])
def test_a_path_that_a_jvm_cannot_parse_is_not_used(tmp_path, monkeypatch, name):
    """Java reads a colon as the end of a path."""
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    archive = ClassArchive(tmp_path / name)
    assert archive.start(lambda: os.environ.get("SPARK_SUBMIT_OPTS")) is None
    assert not archive.keep(None)
    assert not (tmp_path / name).exists()


def test_no_classes_are_kept_where_the_disk_is_nearly_full(tmp_path, monkeypatch):
    """A JVM exits at once if the disk fills up meanwhile, and leaves its scratch files."""
    monkeypatch.setattr(class_archive, "_ROOM", 2**62)
    abandoned, fresh = tmp_path / "spark-abc.4711", tmp_path / "spark-abc.4712"
    abandoned.touch(), fresh.touch()
    os.utime(abandoned, (1, 1))
    assert not ClassArchive(tmp_path).keep(None)
    assert list(tmp_path.iterdir()) == [fresh]


def test_unfinished_archives_of_killed_workers_are_removed_when_another_stores_its_classes(
    tmp_path,
):
    archive = ClassArchive(tmp_path)
    kept, abandoned = tmp_path / f"{archive._stem}-0.jsa", tmp_path / f"{archive._stem}.4711"
    kept.touch(), abandoned.touch()
    os.utime(abandoned, (1, 1))
    assert not archive.keep(None)
    assert list(tmp_path.iterdir()) == [kept]


def test_jars_of_another_time_have_another_archive(tmp_path):
    """A JVM refuses an archive of jars that were reinstalled, even in the same version."""
    jar = tmp_path / "connector.jar"
    jar.touch()
    before = ClassArchive(tmp_path, [jar])._stem
    assert ClassArchive(tmp_path, [jar])._stem == before
    os.utime(jar, (1, 1))
    assert ClassArchive(tmp_path, [jar])._stem != before
