"""The tables read by a command's queries, registered as reads.

Reads of the command's own table are reads of its transaction; other tables are read at the latest
version when the command began to read (`engine.operations.named_tables`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame

from engine.errors import RequestError
from engine.expressions.queries.binding import PLANNED
from engine.expressions.queries.plan import Query, Scan
from engine.expressions.queries.subquery_places import refuse_in
from engine.expressions.session_terms import alike_conjuncts
from engine.expressions.traits import has_subquery, spark_expressions
from engine.expressions.tree import VOID, Column, Expression, Subquery, walk
from engine.operations.execution import Execution
from engine.operations.frame_sources import pin_tables, register_reads
from engine.schema.types import StructType
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import is_true, to_column
from engine.spark.own_columns import add_own_columns, move_to_session, subqueries_of
from engine.spark.scan.query_frames import QueryFrames, add_outer_columns
from engine.spark.scan.reader import ScanRequest, scan
from engine.spark.table_files import TableFiles
from engine.table import DeltaTable
from engine.transaction.optimistic_transaction import OptimisticTransaction


def other_files(execution: Execution, other: DeltaTable, snapshot: Snapshot) -> TableFiles:
    """Return the description of another table's files for reading."""
    return Execution(other, execution.session).files_of(snapshot)


class QueryTables:
    """An opener of the tables of queries; `reads_target` tells whether the command's own is among them."""

    def __init__(self, execution: Execution, txn: OptimisticTransaction | None) -> None:
        self._execution, self._txn = execution, txn
        self.reads_target = False

    def schema(self, name: str, version: int | str | None = None) -> StructType:
        """Return the columns of a table, for `bind_query` and `Command.condition`.

        Raises:
            EngineError: the table does not exist, or the user may not read it.
        """
        return self._open(name, version)[1].schema

    def frame(self, query: Query) -> DataFrame:
        """Return the rows of a query in the caller's session; columns may share a name.

        Raises:
            RequestError: Spark cannot run it.
        """
        caller = self._execution.caller

        def open_scan(read: Scan, condition: Expression | None, nested: bool) -> DataFrame:
            return move_to_session(self._scan(read, condition, nested), caller)

        with _refusals():
            return QueryFrames(caller, open_scan).frame(query)

    def filter_rows(self, rows: DataFrame, condition: Expression) -> DataFrame:
        """Filter rows by a condition, possibly with subqueries.

        Raises:
            RequestError: Spark cannot run it.
        """
        rows = self.prepare_rows(rows, [condition])
        if not has_subquery(condition):
            return rows.filter(is_true(condition))
        with _refusals():
            return rows.filter(self.holds(condition))

    def prepare_rows(
        self, rows: DataFrame, conditions: Sequence[Expression], only: SparkColumn | None = None
    ) -> DataFrame:
        """Add the columns needed by `holds` and `value` for these conditions and values.

        Expressions only Spark can evaluate are computed here, for the rows selected by `only`.
        """
        asks_others = self._register_own(conditions)
        rows = add_own_columns(rows, conditions, only)
        if asks_others:
            rows = pin_tables(self._execution, rows)
        columns = {
            Column(node.path[:1], VOID, node.relation)
            for condition in conditions
            for subquery in walk(condition)
            if isinstance(subquery, Subquery)
            for node in walk(subquery)
            if isinstance(node, Column) and not node.path[0].startswith(PLANNED)
        }
        return add_outer_columns(rows, columns) if columns else rows

    def _register_own(self, trees: Sequence[Expression]) -> bool:
        """Register reads of subqueries in the caller's expressions; return whether any exist."""
        asks_others = False
        for node in (node for tree in trees for node in spark_expressions(tree)):
            frame = subqueries_of(node)
            if frame is None:
                continue
            asks_others = True
            if self._txn is not None:
                register_reads(self._execution, frame, self._txn)
        return asks_others

    def holds(self, condition: Expression) -> SparkColumn:
        """Return a column that is true if a condition holds for a prepared row, else false or null.

        Raises:
            RequestError: Spark cannot run it.
        """
        with _refusals():
            return self._frames().condition(condition, None)

    def value(self, tree: Expression) -> SparkColumn:
        """Return a value over prepared rows, possibly with subqueries.

        Raises:
            ExpressionError: IN with a subquery is allowed only in conditions.
            RequestError: Spark cannot run it.
        """
        if not has_subquery(tree):
            return to_column(tree)
        refuse_in(tree)
        with _refusals():
            return self._frames().column(tree, None)

    def _frames(self) -> QueryFrames:
        return QueryFrames(self._execution.spark, self._scan)

    def _scan(self, read: Scan, condition: Expression | None, nested: bool) -> DataFrame:
        table, snapshot = self._open(read.table, read.version)
        if not self._execution.has_engine_terms:
            condition = alike_conjuncts(condition)
        if self._txn is not None and read.version is None and self._is_target(table):
            if nested:
                self._txn.read_whole_table()
            else:
                self._txn.read_where(condition)
        files = other_files(self._execution, table, snapshot)
        request = ScanRequest(snapshot.add_files(condition))
        return scan(self._execution.spark, files, request)

    def _open(self, name: str, version: int | str | None) -> tuple[DeltaTable, Snapshot]:
        table, snapshot = self._execution.open_named(name, version)
        if version is None and self._is_target(table):
            self.reads_target = True
        return table, snapshot

    def _is_target(self, table: DeltaTable) -> bool:
        return self._execution.named_tables.is_target(table)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        reason = str(error).partition("SQLSTATE")[0].strip()[:400]
        msg = f"Spark cannot run this query: {reason}"
        raise RequestError(msg, "Rewrite it, for example with a join.") from error
