"""The package `delta` for programs and libraries that import it by this name.

There are three ways to it: `provide_delta()`, `python -m engine.delta program.py`, and PYTHONPATH
with the directory that `python -m engine.delta --path` prints.
"""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.sql import SparkSession

from engine.delta.names import uses_delta_spark
from engine.delta.session_hooks import enable, is_enabled
from engine.errors import RequestError
from engine.spark.session import bypass_routing, check_hooks

__version__ = "4.4.0"  # of delta-spark, whose API this is
DIRECTORY = Path(__file__).parent / "provided"
"""The directory that PYTHONPATH names to have this package."""
_CATALOG = "spark.sql.catalog.spark_catalog"
_LISTS = "spark.sql.extensions", "spark.jars.packages"
_MODULES = {
    "delta.connect": "engine.delta.connect",
    "delta.connect.exceptions": "engine.delta.connect.exceptions",
    "delta.connect.tables": "engine.delta.connect.tables",
    "delta.exceptions": "engine.delta.exceptions",
    "delta.exceptions.base": "engine.delta.exceptions.base",
    "delta.exceptions.captured": "engine.delta.exceptions.jvm_exceptions",
    "delta.pip_utils": "engine.delta.delta_package",
    "delta.tables": "engine.delta.tables",
    "delta.version": "engine.delta.delta_package",
}

check_hooks(SparkSession.Builder, getOrCreate="", create="")


class ForeignDeltaError(RequestError):
    """Another package `delta` is imported already."""

    code = "LAKE_DELTA_IMPORTED"

    def __init__(self, file: str) -> None:
        """Take the file of the other package."""
        super().__init__(
            f"The package `delta` is imported already, from {file}.",
            "Call provide_delta() before everything that imports delta, or run the program with "
            "`python -m engine.delta`.",
            field="delta",
        )


def provide_delta() -> None:
    """Have `import delta` give this engine's API, and enable the sessions that builders return.

    Programs and libraries written for delta-spark then run as they are. The settings of
    delta-spark in a builder (`spark.sql.extensions`, `spark.sql.catalog.spark_catalog` and its
    entries of `spark.jars.packages`) are dropped.

    Raises:
        ForeignDeltaError: another package `delta` is imported already.
    """
    present = sys.modules.get("delta")
    if present is None:
        sys.path.insert(0, str(DIRECTORY))
        present = import_module("delta")
    if present.__file__ is None or DIRECTORY not in Path(present.__file__).parents:
        raise ForeignDeltaError(present.__file__ or str(*present.__path__[:1]))


def configure_spark_with_delta_pip(
    spark_session_builder: SparkSession.Builder, extra_packages: list[str] | None = None
) -> SparkSession.Builder:
    """Return the builder with the extra packages; Delta itself needs none.

    Raises:
        TypeError: it is no builder of a session.
    """
    if not isinstance(spark_session_builder, SparkSession.Builder):
        msg = f"A SparkSession builder is needed, not {type(spark_session_builder)}."  # type: ignore[unreachable] # callers are not checked
        raise TypeError(msg)
    if not extra_packages:
        return spark_session_builder
    return spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))


def serve_delta() -> None:
    """Serve the modules of `delta` and enable the active session and those that builders return."""
    if any(isinstance(finder, _EngineFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _EngineFinder())
    for name in ("exceptions", "pip_utils", "tables", "version"):  # as delta-spark loads them
        import_module(f"delta.{name}")
    builder: Any = SparkSession.Builder
    for name in ("getOrCreate", "create"):
        setattr(builder, name, _enable_session(getattr(builder, name)))
    active = SparkSession.getActiveSession()
    if active is not None:
        _take_over(active)


class _EngineFinder(MetaPathFinder, Loader):
    """Loads the modules of `delta` as the engine's own: each class exists once."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return a specification for a module of `delta`."""
        return ModuleSpec(fullname, self) if fullname in _MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the engine's module in place of the empty one."""
        sys.modules[module.__name__] = import_module(_MODULES[module.__name__])


def _enable_session(original: Callable[..., SparkSession]) -> Callable[..., SparkSession]:
    @wraps(original)
    def build(self: Any) -> SparkSession:  # noqa: ANN401 - a builder
        _drop_delta_spark(self._options)
        return _take_over(original(self))

    return build


def _drop_delta_spark(options: dict[str, Any]) -> None:
    """Drop delta-spark's own settings from those of a builder."""
    for name in _LISTS:
        entries = str(options.pop(name, "")).split(",")
        kept = [entry for entry in entries if entry and not entry.strip().startswith("io.delta")]
        if kept:
            options[name] = ",".join(kept)
    if "delta" in str(options.get(_CATALOG, "")).lower():
        del options[_CATALOG]


def _take_over(session: SparkSession) -> SparkSession:
    if is_enabled(session):
        return session
    with bypass_routing():
        if uses_delta_spark(session):  # by Spark's own files of settings
            session.conf.unset(_CATALOG)
    return enable(session, take_over=True)
