"""Spark's classes, archived for the next JVM: loading them takes a third of its CPU at startup.

A JVM that exits normally leaves an archive of its classes (class data sharing, JEP 350), and the
next JVM maps it. A JVM ignores an archive of another class path or build, but it does not verify
the bytes and can crash on damaged ones. The archive's name therefore holds a checksum: a damaged or
foreign archive is deleted, and the next JVM that exits writes a new one.
"""

import hashlib
import logging
import os
import shutil
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from engine.spark.session import java_on_path

logger = logging.getLogger(__name__)

_OPTIONS = "SPARK_SUBMIT_OPTS"  # Spark gives them to the driver's JVM beside its own
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_BEAN, _DUMP = "com.sun.management:type=DiagnosticCommand", "vmCds"
_ROOM = 512 * 1024**2
"""Required disk space: an archive has 100 MiB, and a JVM exits if the disk fills during a dump."""
_UNNAMEABLE = frozenset('"\\\n' + os.pathsep)  # in a path, to Spark's launcher or to the JVM
_ABANDONED_S = 3600


class ClassArchive:
    """The archive in a directory. Nobody else may write there: its classes run unchecked."""

    def __init__(self, directory: Path, jars: Sequence[Path] = ()) -> None:
        self._directory = directory
        self._stem = f"spark-{_digest(jars)}"

    def start(self, build: Callable[[], SparkSession]) -> SparkSession:
        """Return the session of `build`; its JVM uses the archive, or records its classes for one.

        If the JVM refuses to start (an image without `classes.jsa`, or conflicting user options),
        start it once more without archives.
        """
        if not _UNNAMEABLE.isdisjoint(str(self._directory)):
            return build()
        archive = self._sound()
        try:
            with _use_archive(archive):
                return build()
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
        if archive is not None:
            _delete(archive)
        logger.warning(
            "Java does not start with an archive of its classes, so it is started without the archive"
        )
        return build()

    def keep(self, session: SparkSession) -> bool:
        """Write the classes of a session's JVM unless an archive exists; return whether it did.

        The JVM pauses for some seconds.
        """
        if not _UNNAMEABLE.isdisjoint(str(self._directory)):
            return False
        self._forget_abandoned()
        if self._list_archives():
            return False
        fresh = self._directory / f"{self._stem}.{uuid.uuid4().int}"
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if shutil.disk_usage(self._directory).free < _ROOM:
                return False
            _dump(session, fresh)
            fresh.chmod(0o600)
            named = self._directory / f"{self._stem}-{_sum(fresh):08x}.jsa"
            for stale in self._directory.glob("spark-*.jsa"):
                stale.unlink(missing_ok=True)
            fresh.replace(named)
        except (OSError, Py4JError):  # a full disk, an unsupported JVM
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            return False
        return True

    def _list_archives(self) -> list[Path]:
        """List the archives for this Java and these jars, damaged ones included."""
        try:
            return sorted(self._directory.glob(f"{self._stem}-*.jsa"))
        except OSError:
            return []

    def _sound(self) -> Path | None:
        """Return the archive with a correct checksum, None if there is none; delete the others."""
        sound = None
        for archive in self._list_archives():
            try:
                is_sound = not archive.is_symlink() and archive.stem.endswith(
                    f"-{_sum(archive):08x}"
                )
            except OSError:  # a directory, or unreadable
                is_sound = False
            if is_sound:
                sound = archive
            else:
                logger.warning("The archive of classes %s is damaged and is not used", archive)
                _delete(archive)
        return sound

    def _forget_abandoned(self) -> None:
        """Delete unfinished archives of killed workers."""
        until = time.time() - _ABANDONED_S
        with suppress(OSError):  # another worker deletes it
            for begun in self._directory.glob("spark-*.*[0-9]"):
                if begun.stat().st_mtime < until:
                    begun.unlink(missing_ok=True)


@contextmanager
def _use_archive(archive: Path | None) -> Iterator[None]:
    before = os.environ.get(_OPTIONS)
    share = (
        "-XX:+RecordDynamicDumpInfo" if archive is None else f'"-XX:SharedArchiveFile={archive}"'
    )
    os.environ[_OPTIONS] = " ".join(filter(None, (before, share, _SILENT)))
    try:
        yield
    finally:
        if before is None:
            del os.environ[_OPTIONS]
        else:
            os.environ[_OPTIONS] = before


def _sum(file: Path) -> int:
    """Return the CRC-32, against accidents only. 100 MiB take a tenth of a second."""
    total = 0
    with file.open("rb") as content:
        while block := content.read(1024**2):
            total = zlib.crc32(block, total)
    return total


def _delete(archive: Path) -> None:
    with suppress(OSError):
        archive.unlink(missing_ok=True)


def _digest(jars: Sequence[Path]) -> str:
    """Return a digest that changes with Java, PySpark, the connectors and the times of jars, as a JVM requires."""
    java = Path(java_on_path() or "java").resolve()
    own = sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))
    files = [java, *sorted(jars), *own]
    parts = [version("pyspark"), *((file, _read_build_stamp(file)) for file in files)]
    return hashlib.sha256("\n".join(map(str, parts)).encode("utf-8", "replace")).hexdigest()[:16]


def _read_build_stamp(file: Path) -> tuple[int, int]:
    status = file.stat() if file.is_file() else None
    return (status.st_mtime_ns, status.st_size) if status else (0, 0)


def _dump(session: SparkSession, place: Path) -> None:
    """Run the diagnostic command `VM.cds dynamic_dump`, which a JRE has too."""
    gateway: Any = session.sparkContext._gateway
    java = gateway.jvm.java.lang
    beans = java.Class.forName("javax.management.MBeanServer")
    invoke = next(method for method in beans.getMethods() if method.getName() == "invoke")
    words = _array(gateway, java.String, "dynamic_dump", f'"{place}"')
    name = gateway.jvm.javax.management.ObjectName(_BEAN)
    types = _array(gateway, java.String, "[Ljava.lang.String;")
    arguments = (name, _DUMP, _array(gateway, java.Object, words), types)
    server = java.management.ManagementFactory.getPlatformMBeanServer()
    invoke.invoke(server, _array(gateway, java.Object, *arguments))


def _array(gateway: Any, kind: Any, *values: Any) -> Any:  # noqa: ANN401 - the JVM's
    made = gateway.new_array(kind, len(values))
    for place, value in enumerate(values):
        made[place] = value
    return made
