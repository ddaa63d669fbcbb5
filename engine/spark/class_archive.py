"""Spark's classes, kept ready for the next JVM: a third of its CPU at the start goes into loading them.

A JVM that ends in order leaves an archive of the classes it used (class data sharing, JEP 350); the
next one maps it. A JVM checks that an archive fits its class path and itself, and goes without it
otherwise.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.sql import SparkSession

from engine.spark.session import java_on_path

_OPTIONS = "SPARK_SUBMIT_OPTS"  # Spark gives them to the driver's JVM beside its own
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
_BEAN, _DUMP = "com.sun.management:type=DiagnosticCommand", "vmCds"


class ClassArchive:
    """The archive in a directory that nobody else may write to: its classes are run as they are."""

    def __init__(self, directory: Path, jars: Sequence[Path] = ()) -> None:
        self._path = directory / f"spark-{_digest(jars)}.jsa"

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let the JVM that starts meanwhile use it, or note its classes where there is none yet."""
        before = os.environ.get(_OPTIONS)
        share = f'"-XX:SharedArchiveFile={self._path}"'
        ours = share if self._path.is_file() else "-XX:+RecordDynamicDumpInfo"
        os.environ[_OPTIONS] = " ".join(filter(None, (before, ours, _SILENT)))
        try:
            yield
        finally:
            if before is None:
                del os.environ[_OPTIONS]
            else:
                os.environ[_OPTIONS] = before

    def keep(self, session: SparkSession) -> bool:
        """Write the classes that a session's JVM used, where none are kept; whether it did.

        It takes some seconds, in which the JVM stands still.
        """
        if self._path.is_file():
            return False
        fresh = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _dump(session, fresh)
            fresh.chmod(0o600)
            for stale in self._path.parent.glob("spark-*.jsa"):
                stale.unlink(missing_ok=True)
            fresh.replace(self._path)
        except (OSError, Py4JError):  # a full disk, a JVM that cannot
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            return False
        return True


def _digest(jars: Sequence[Path]) -> str:
    """Another one for another Java, PySpark or connector."""
    java = Path(java_on_path() or "java").resolve()
    built = java.stat().st_mtime_ns if java.is_file() else 0
    parts = (java, built, version("pyspark"), *sorted(jars))
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


def _dump(session: SparkSession, place: Path) -> None:
    """The diagnostic command `VM.cds dynamic_dump`, which a JRE has too."""
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
