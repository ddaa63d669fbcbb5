"""The tables and versions that a DataFrame reads, from its analysed plan."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from engine.spark.file_index import LIVE_MARK
from engine.spark.jvm import frame_over, get_analysed_plan, iter_seq
from engine.spark.session import is_remote

TABLE_MARK, VERSION_MARK = "lake.table", "lake.version"
"""Options of a scan in the plan; Spark's Parquet reader ignores them."""
_FILES_OF_RDD = 20
_TIME_TRAVEL = ("versionasof", "timestampasof")


@dataclass(frozen=True, slots=True)
class TableRead:
    """A scan of files.

    Attributes:
        place: the location of a table, or of files or a directory that may be inside one.
        version: the version read, None if the plan does not state it.
        text: SQL that only a Spark Connect server will parse.
        is_pinned: the plan fixes the version: `version`, or one that the caller requested by name.
        is_fixed: it reads the state at the frame's creation, and the plan does not state when.
    """

    place: str = ""
    version: int | None = None
    text: str = ""
    is_pinned: bool = False
    is_fixed: bool = False


def reads_of(frame: DataFrame) -> list[TableRead]:
    """Return the scans of a frame, its subqueries included.

    Rows from a checkpoint or from the program itself have lost their origin.
    """
    if is_remote(frame.sparkSession):
        return list(_remote_reads(_message(frame)))
    return list(_classic_reads(get_analysed_plan(frame)))


def live_reads_of(frame: DataFrame) -> list[TableRead]:
    """Return the scans as `reads_of` does, without those that Spark takes from its cache.

    Spark Connect only reports that some data is cached: then no scan is known to be live.
    """
    if not is_remote(frame.sparkSession):
        again = frame_over(get_analysed_plan(frame), frame.sparkSession)
        return list(_classic_reads(_untype(again)._jdf.queryExecution().withCachedData()))
    cached = "InMemoryTableScan" in str(_untype(frame)._explain_string())
    return [] if cached else reads_of(frame)


def iter_leaves(plan: Any) -> Iterator[Any]:  # noqa: ANN401 - the JVM's
    """Yield the leaves of a plan and of its subqueries."""
    yield from iter_seq(plan.collectLeaves())
    for subquery in iter_seq(plan.subqueriesAll()):
        yield from iter_seq(subquery.collectLeaves())


def option_of(options: Any, name: str) -> str | None:  # noqa: ANN401 - a map of Scala's
    """Return the value of an option, None if it is not set."""
    option = options.get(name)
    return str(option.get()) if option.isDefined() else None


def files_of(frame: DataFrame) -> list[str] | None:
    """Return the files that a Spark Connect frame scans, also through views; None if unknown."""
    plan = str(_untype(frame)._explain_string()).lower()
    if "subquery" in plan or "batchscan" in plan:
        return None
    return list(frame.inputFiles())


def has_subqueries(frame: DataFrame) -> bool:
    """Whether an expression in the frame holds a subquery."""
    if is_remote(frame.sparkSession):
        plan = str(_message(frame)).lower()
        return "subquery_expression" in plan or "select" in plan
    return bool(get_analysed_plan(frame).subqueriesAll().size())


def _classic_reads(plan: Any) -> Iterator[TableRead]:  # noqa: ANN401 - the JVM's
    for leaf in iter_leaves(plan):
        kind = str(leaf.nodeName())
        if kind == "LogicalRelation":
            yield from _iter_file_reads(leaf.relation())
        elif kind.startswith(("RelationV2", "DataSourceV2Relation")):
            yield from _iter_source_reads(leaf)
        elif kind == "LogicalRDD":
            yield from _iter_rdd_reads(leaf.rdd())


def _iter_file_reads(relation: Any) -> Iterator[TableRead]:  # noqa: ANN401
    if not str(relation.getClass().getName()).endswith(".HadoopFsRelation"):
        return
    mark = option_of(relation.options(), TABLE_MARK)
    if mark is not None:
        is_live = option_of(relation.options(), LIVE_MARK) is not None
        yield TableRead(mark, is_pinned=not is_live)
        return
    location = relation.location()
    if "sql.delta" in str(location.getClass().getName()):  # of delta-spark
        yield TableRead(str(location.path().toString()), _version_of(location))
        return
    roots = location.rootPaths()
    for index in range(roots.size()):
        yield TableRead(str(roots.apply(index).toString()), is_fixed=True)


def _iter_rdd_reads(rdd: Any) -> Iterator[TableRead]:  # noqa: ANN401
    """Iterate over files from which the rows of an RDD were read, some of each scan."""
    pending, seen = [rdd], set[int]()
    while pending:
        here = pending.pop()
        if here.id() in seen:
            continue
        seen.add(here.id())
        if str(here.getClass().getName()).endswith(".FileScanRDD"):
            for partition in itertools.islice(iter_seq(here.filePartitions()), _FILES_OF_RDD):
                for file in partition.files():
                    yield TableRead(str(file.urlEncodedPath()), is_fixed=True)
        pending.extend(dependency.rdd() for dependency in iter_seq(here.dependencies()))


def _version_of(location: Any) -> int | None:  # noqa: ANN401 - a file index of delta-spark
    try:
        return int(location.getSnapshot().version())
    except (Py4JError, PySparkException):
        return None


def _iter_source_reads(leaf: Any) -> Iterator[TableRead]:  # noqa: ANN401
    path = leaf.options().get("path")
    if path is not None:
        chosen = any(leaf.options().get(name) is not None for name in _TIME_TRAVEL)
        yield TableRead(str(path), is_pinned=chosen, is_fixed=not chosen)


# --- Spark Connect ---


def _message(frame: DataFrame) -> Any:  # noqa: ANN401 - protocol buffers
    """Return the plan as it is sent to the server."""
    inside = _untype(frame)
    return inside._plan.to_proto(inside.sparkSession.client)


def _untype(frame: DataFrame) -> Any:  # noqa: ANN401 - what its class does not show
    return frame


def _remote_reads(message: Any) -> Iterator[TableRead]:  # noqa: ANN401 - protocol buffers
    pending = [message]
    while pending:
        here = pending.pop()
        for descriptor, value in here.ListFields():
            if descriptor.name == "data_source":
                yield from _iter_remote_source_reads(value)
            elif descriptor.name == "named_table":
                yield TableRead(text=f"TABLE {value.unparsed_identifier}")
            elif descriptor.name == "sql":
                yield TableRead(text=str(value.query))
            elif descriptor.name == "expression_string" and "select" in str(value).lower():
                yield TableRead(text=str(value))
            pending.extend(_messages(value))


def _messages(value: Any) -> Sequence[Any]:  # noqa: ANN401
    if hasattr(value, "ListFields"):
        return [value]
    if hasattr(value, "values"):  # a map
        return [item for item in value.values() if hasattr(item, "ListFields")]
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return []
    return [item for item in value if hasattr(item, "ListFields")]


def _iter_remote_source_reads(source: Any) -> Iterator[TableRead]:  # noqa: ANN401
    options = {str(key).lower(): str(value) for key, value in source.options.items()}
    if TABLE_MARK in options:
        version = options.get(VERSION_MARK)
        yield TableRead(options[TABLE_MARK], int(version) if version else None, is_pinned=True)
        return
    for path in [*source.paths, *([options["path"]] if "path" in options else [])]:
        chosen = any(name in options for name in _TIME_TRAVEL)
        yield TableRead(str(path), is_pinned=chosen, is_fixed=not chosen)
