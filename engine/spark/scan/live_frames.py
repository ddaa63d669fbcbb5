"""The tables and versions that a DataFrame reads, from its analyzed plan.

A DataFrame over the latest versions of tables can be pinned to fixed ones, and refreshed.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from engine.snapshot.snapshot import Snapshot
from engine.spark.jvm import frame_over, get_analyzed_plan, iter_seq
from engine.spark.scan.file_index import LIVE_MARK, live_files, relation_at
from engine.spark.scan.live_tables import LiveTable
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
    return list(_classic_reads(get_analyzed_plan(frame)))


def live_reads_of(frame: DataFrame) -> list[TableRead]:
    """Return the scans as `reads_of` does, without those that Spark takes from its cache.

    Spark Connect only reports that some data is cached: then no scan is known to be live.
    """
    if not is_remote(frame.sparkSession):
        again = frame_over(get_analyzed_plan(frame), frame.sparkSession)
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
    return bool(get_analyzed_plan(frame).subqueriesAll().size())


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


def pin_versions(frame: DataFrame, choose: Callable[[LiveTable], Snapshot]) -> DataFrame:
    """Return the frame with every scan of a latest version fixed at the version chosen by `choose`.

    Data from Spark's cache stays as cached.

    Raises:
        SchemaChangedSinceAnalysisError: a version has other columns than the frame.
    """
    if is_remote(frame.sparkSession) or not _marks(get_analyzed_plan(frame)):
        return frame
    plan = _use_cached_data(frame)
    session = frame.sparkSession
    files = {mark: live_files(mark) for mark in _marks(plan)}
    relations = {
        mark: relation_at(session, live, choose(live.table)) for mark, live in files.items()
    }
    if not relations:
        return frame
    return frame_over(plan.transformUpWithSubqueries(_Relations(relations)), session)


def refresh(frame: DataFrame) -> DataFrame:
    """Return the frame without Spark's state of its last run; itself if it has no live scan."""
    if is_remote(frame.sparkSession) or not _marks(get_analyzed_plan(frame)):
        return frame
    return frame_over(get_analyzed_plan(frame), frame.sparkSession)


def _use_cached_data(frame: DataFrame) -> Any:  # noqa: ANN401 - the JVM's
    """Return the plan with currently cached data in place of its sources."""
    plan = get_analyzed_plan(frame)
    again: Any = frame_over(plan, frame.sparkSession)
    cached = again._jdf.queryExecution().withCachedData()
    kinds = {str(leaf.nodeName()) for leaf in iter_leaves(cached)}
    return cached if any(kind.startswith("InMemoryRelation") for kind in kinds) else plan


def _marks(plan: Any) -> set[str]:  # noqa: ANN401 - the JVM's
    return {mark for leaf in iter_leaves(plan) if (mark := _mark(leaf)) is not None}


def _mark(node: Any) -> str | None:  # noqa: ANN401 - the JVM's
    if str(node.getClass().getSimpleName()) != "LogicalRelation":
        return None
    relation = node.relation()
    if str(relation.getClass().getSimpleName()) != "HadoopFsRelation":
        return None
    return option_of(relation.options(), LIVE_MARK)


class _Relations:
    """A Scala function that replaces the marked relations of a plan."""

    class Java:
        """Py4J's declaration of the implemented interface."""

        implements = ("scala.PartialFunction",)

    def __init__(self, relations: Mapping[str, Any]) -> None:
        self._relations = relations

    def isDefinedAt(self, node: Any) -> bool:  # noqa: ANN401, N802 - Scala's
        """Whether the node is one of the relations."""
        return _mark(node) in self._relations

    def apply(self, node: Any) -> Any:  # noqa: ANN401
        """Return the relation to put in the node's place."""
        mark = _mark(node)
        if mark is None or mark not in self._relations:
            return node
        return node.copy(
            self._relations[mark],
            node.output(),
            node.catalogTable(),
            node.isStreaming(),
            node.stream(),
        )

    def applyOrElse(self, node: Any, default: Any) -> Any:  # noqa: ANN401, ARG002, N802
        """Replace a marked relation; leave every other node as it is."""
        return self.apply(node)
