"""`df.mergeInto` of an enabled session: Spark's builder of a MERGE, into a Delta table by the engine."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame

from engine.delta.exceptions import convert_error, delta_errors
from engine.delta.handle import Handle
from engine.delta.merge_builder import DeltaMergeBuilder
from engine.delta.names import find_delta, parts_in
from engine.delta.table_access import open_table
from engine.errors import RequestError
from engine.spark.plain_sql import bypass_routing


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
            self._builder.execute()

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
            what = "whenNotMatchedBySource().updateAll() has no source row to take values from."
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
