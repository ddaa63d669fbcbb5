"""DataFrames over the latest versions of tables, converted to fixed versions."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from engine.snapshot.snapshot import Snapshot
from engine.spark.file_index import LIVE_MARK, live_files, relation_at
from engine.spark.frame_reads import iter_leaves, option_of
from engine.spark.jvm import frame_over, get_analysed_plan
from engine.spark.live_tables import LiveTable
from engine.spark.session import is_remote


def pin_versions(frame: DataFrame, choose: Callable[[LiveTable], Snapshot]) -> DataFrame:
    """Return the frame with every scan of a latest version fixed at the version chosen by `choose`.

    Data from Spark's cache stays as cached.

    Raises:
        SchemaChangedSinceAnalysisError: a version has other columns than the frame.
    """
    if is_remote(frame.sparkSession) or not _marks(get_analysed_plan(frame)):
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
    if is_remote(frame.sparkSession) or not _marks(get_analysed_plan(frame)):
        return frame
    return frame_over(get_analysed_plan(frame), frame.sparkSession)


def _use_cached_data(frame: DataFrame) -> Any:  # noqa: ANN401 - the JVM's
    """Return the plan with currently cached data in place of its sources."""
    plan = get_analysed_plan(frame)
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
