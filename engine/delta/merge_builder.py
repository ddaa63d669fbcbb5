"""`DeltaTable.merge()` and `df.mergeInto()`: the clauses of a MERGE, one call each.

A DataFrame's alias is the prefix of its columns in conditions and values.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame

from engine.commands.merge import (
    BY_SOURCE,
    DELETE,
    INSERT,
    INSERT_ALL,
    MATCHED,
    NOT_MATCHED,
    UPDATE,
    UPDATE_ALL,
    MergeClause,
    NoClauseError,
)
from engine.commands.model import DataFrameSource, Merge
from engine.delta.arguments import ColumnMapping, ExpressionOrColumn, assignments, condition
from engine.delta.exceptions import convert_error, delta_errors
from engine.delta.handle import AUTO_MERGE, Handle
from engine.delta.names import find_delta, open_table, parts_in
from engine.delta.result_frames import merge_frame
from engine.errors import RequestError
from engine.expressions.types import is_cast_by_zone, sql_name
from engine.spark.columns import from_spark_schema
from engine.spark.jvm import frame_over, get_analyzed_plan, scala_seq, sql_package
from engine.spark.session import bypass_routing, check_is_spark, is_in_utc, is_remote

TARGET, SOURCE = "target", "source"


def _default_name(target: str) -> str:
    """Return the name of a source without one, in a MERGE into a table of the given name."""
    return SOURCE if target.lower() != SOURCE else f"__lake_{SOURCE}"


class DeltaMergeBuilder:
    """Builder of a MERGE; `DeltaTable.merge` makes one. Each call returns a builder of its own."""

    def __init__(
        self,
        handle: Handle,
        source: DataFrame,
        on: ExpressionOrColumn,
        clauses: tuple[MergeClause, ...] = (),
        *,
        evolves: bool = False,
    ) -> None:
        """Begin the MERGE of `DeltaTable.merge`."""
        self._handle, self._source, self._on = handle, source, on
        self._clauses, self._evolves = clauses, evolves
        self._caller = handle.caller(source)

    def whenMatchedUpdate(  # noqa: N802 - delta-spark's names
        self, condition: ExpressionOrColumn | None = None, set: ColumnMapping | None = None
    ) -> "DeltaMergeBuilder":
        """Set columns of target rows with a matching source row."""
        return self._add_clause(MATCHED, UPDATE, condition, set, "'set' in whenMatchedUpdate")

    def whenMatchedUpdateAll(  # noqa: N802
        self, condition: ExpressionOrColumn | None = None
    ) -> "DeltaMergeBuilder":
        """Set every column of matched rows to the source's column of its name."""
        return self._add_clause(MATCHED, UPDATE_ALL, condition)

    def whenMatchedDelete(  # noqa: N802
        self, condition: ExpressionOrColumn | None = None
    ) -> "DeltaMergeBuilder":
        """Delete matched rows."""
        return self._add_clause(MATCHED, DELETE, condition)

    def whenNotMatchedInsert(  # noqa: N802
        self, condition: ExpressionOrColumn | None = None, values: ColumnMapping | None = None
    ) -> "DeltaMergeBuilder":
        """Insert a row for a source row without a match; the values read only the source."""
        return self._add_clause(
            NOT_MATCHED, INSERT, condition, values, "'values' in whenNotMatchedInsert"
        )

    def whenNotMatchedInsertAll(  # noqa: N802
        self, condition: ExpressionOrColumn | None = None
    ) -> "DeltaMergeBuilder":
        """Insert source rows without a match, column by column of the same name."""
        return self._add_clause(NOT_MATCHED, INSERT_ALL, condition)

    def whenNotMatchedBySourceUpdate(  # noqa: N802
        self, condition: ExpressionOrColumn | None = None, set: ColumnMapping | None = None
    ) -> "DeltaMergeBuilder":
        """Set columns of target rows without a matching source row."""
        name = "'set' in whenNotMatchedBySourceUpdate"
        return self._add_clause(BY_SOURCE, UPDATE, condition, set, name)

    def whenNotMatchedBySourceDelete(  # noqa: N802
        self, condition: ExpressionOrColumn | None = None
    ) -> "DeltaMergeBuilder":
        """Delete target rows without a matching source row."""
        return self._add_clause(BY_SOURCE, DELETE, condition)

    def withSchemaEvolution(self) -> "DeltaMergeBuilder":  # noqa: N802
        """Add the source's new columns to the target."""
        return self._copy(self._clauses, evolves=True)

    def option(self, key: str, value: object) -> "DeltaMergeBuilder":
        """Set an option of this write alone, by delta-spark's name."""
        return self._rebind(self._handle.set_option(key, value))

    def retries(self, count: int) -> "DeltaMergeBuilder":
        """Set how often this write is retried after a conflict."""
        return self._rebind(replace(self._handle, retries=count))

    def commitInfo(self, userMetadata: str) -> "DeltaMergeBuilder":  # noqa: N802, N803
        """Set the user metadata of the commit."""
        return self.option("userMetadata", userMetadata)

    def execute(self) -> DataFrame:
        """Run the MERGE.

        Returns:
            num_affected_rows, num_updated_rows, num_deleted_rows and num_inserted_rows; its
            `conflicts` are the overlaps resolved at row level.
        """
        handle = self._handle
        with delta_errors():
            check_is_spark(handle.spark)
            names = self._caller.source_name[-1:]
            self._check_zone()
        evolves = self._evolves or handle.is_set(AUTO_MERGE)
        on = condition(self._on, self._caller)
        result = handle.run(
            Merge(
                source=DataFrameSource(self._source, names, is_made_anew=handle.reads_anew),
                on="" if on is None else on,
                clauses=self._clauses,
                target_alias=handle.qualifier or TARGET,
                source_alias=names[0] if names else _default_name(handle.qualifier),
                schema_evolution=evolves,
            )
        )
        return merge_frame(handle.spark, result)

    def _check_zone(self) -> None:
        """Refuse to store whole source rows if a column would be cast in another zone than UTC."""
        stars = {clause.action for clause in self._clauses} & {UPDATE_ALL, INSERT_ALL}
        if not stars or is_in_utc(self._handle.spark):
            return
        source = from_spark_schema(self._source.schema)
        for column in self._handle.table.snapshot().schema:
            mine = source.get(column.name)
            if mine is not None and is_cast_by_zone(mine.type, column.type):
                kind = sql_name(column.type)
                what = (
                    f"The source's column {mine.name} would be stored in the session's time zone."
                )
                raise RequestError(what, f"Cast it to {kind} in the source.", field="source")

    def _add_clause(
        self,
        when: str,
        action: str,
        given: object,
        values: object = None,
        name: str = "",
    ) -> "DeltaMergeBuilder":
        sets = assignments(values, self._caller, name) if name else {}
        clause = MergeClause(when, action, condition(given, self._caller), sets)
        return self._copy((*self._clauses, clause), evolves=self._evolves)

    def _copy(self, clauses: tuple[MergeClause, ...], *, evolves: bool) -> "DeltaMergeBuilder":
        return DeltaMergeBuilder(self._handle, self._source, self._on, clauses, evolves=evolves)

    def _rebind(self, handle: Handle) -> "DeltaMergeBuilder":
        return DeltaMergeBuilder(
            handle, self._source, self._on, self._clauses, evolves=self._evolves
        )


def merge_writer(frame: DataFrame, table: str, condition: Column) -> "DeltaMergeWriter | None":
    """Return the builder for a Delta table of this name; None if there is none."""
    spark = frame.sparkSession
    with bypass_routing(), delta_errors():
        place = find_delta(spark, parts_in(spark, table))
        if place is None:
            return None
        shown = table if place.name else place.location
        handle = Handle(spark, open_table(spark, place.location, name=shown), name=place.name)
        return DeltaMergeWriter(DeltaMergeBuilder(handle, frame, condition))


class NoActionError(RequestError, code="NO_MERGE_ACTION_SPECIFIED", sqlstate="42K0E"):
    """`mergeInto` without a clause."""


class DeltaMergeWriter:
    """The result of `df.mergeInto`, with the names of Spark's `MergeIntoWriter`."""

    def __init__(self, builder: DeltaMergeBuilder) -> None:
        """Begin the MERGE of `df.mergeInto`."""
        self._builder = builder

    def whenMatched(self, condition: Column | None = None) -> "MatchedActions":  # noqa: N802 - Spark's
        """Begin a clause for target rows with a matching source row."""
        return MatchedActions(self, "whenMatched", condition)

    def whenNotMatched(self, condition: Column | None = None) -> "NotMatchedActions":  # noqa: N802
        """Begin a clause for source rows without a matching target row."""
        return NotMatchedActions(self, "whenNotMatched", condition)

    def whenNotMatchedBySource(  # noqa: N802
        self, condition: Column | None = None
    ) -> "MatchedActions":
        """Begin a clause for target rows without a matching source row."""
        return MatchedActions(self, "whenNotMatchedBySource", condition)

    def withSchemaEvolution(self) -> "DeltaMergeWriter":  # noqa: N802
        """Add the source's new columns to the table."""
        self._builder = self._builder.withSchemaEvolution()
        return self

    def merge(self) -> None:
        """Do the MERGE.

        Raises:
            ConflictError: a concurrent commit won.
        """
        with bypass_routing():
            try:
                self._builder.execute()
            except NoClauseError as error:
                raise convert_error(NoActionError(error.what, error.remedy)) from error

    def _apply(self, method: str, *arguments: Any) -> "DeltaMergeWriter":  # noqa: ANN401
        self._builder = getattr(self._builder, method)(*arguments)
        return self


class _Actions:
    def __init__(self, writer: DeltaMergeWriter, when: str, condition: Column | None) -> None:
        self._writer, self._when, self._condition = writer, when, condition

    def _do(self, action: str, *values: Mapping[str, Column]) -> DeltaMergeWriter:
        return self._writer._apply(f"{self._when}{action}", self._condition, *map(dict, values))


class MatchedActions(_Actions):
    """Actions on rows of the target."""

    def updateAll(self) -> DeltaMergeWriter:  # noqa: N802 - Spark's
        """Set every column to the source's of its name."""
        if self._when == "whenNotMatchedBySource":
            what = (
                "whenNotMatchedBySource().updateAll() cannot take values from a source row, "
                "because there is none."
            )
            raise convert_error(RequestError(what, "Use update.", field="whenNotMatchedBySource"))
        return self._do("UpdateAll")

    def update(self, assignments: Mapping[str, Column]) -> DeltaMergeWriter:
        """Set columns."""
        return self._do("Update", assignments)

    def delete(self) -> DeltaMergeWriter:
        """Delete them."""
        return self._do("Delete")


class NotMatchedActions(_Actions):
    """Actions on rows of the source."""

    def insertAll(self) -> DeltaMergeWriter:  # noqa: N802 - Spark's
        """Insert them, columns by name."""
        return self._do("InsertAll")

    def insert(self, assignments: Mapping[str, Column]) -> DeltaMergeWriter:
        """Insert a row of these values."""
        return self._do("Insert", assignments)


def name_frame(frame: DataFrame, name: str) -> DataFrame:
    """Return a table's rows under its name, so that `t.x`, `db.t.x` and `catalog.db.t.x` are columns.

    `name` is the table's whole name in its catalog; Spark Connect keeps its last part alone.
    """
    *qualifier, short = name.replace("`", "").split(".")
    session = frame.sparkSession
    if is_remote(session) or not qualifier:
        return frame.alias(short)
    catalyst = sql_package(session).catalyst
    identifier = catalyst.AliasIdentifier(short, scala_seq(qualifier, session))
    plan = catalyst.plans.logical.SubqueryAlias(identifier, get_analyzed_plan(frame))
    return frame_over(plan, session)
