"""`df.writeTo` of an enabled session: Delta tables are written by the engine."""

from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, DataFrameWriterV2

from engine.delta.exceptions import delta_errors
from engine.delta.frame_reader import is_delta
from engine.delta.frame_writes import (
    APPEND,
    FrameWrite,
    append,
    new_table,
    open_existing,
    overwrite,
    overwrite_partitions,
    replace_table,
)
from engine.delta.names import PROVIDERS, NameTakenError, NameUnknownError, find_delta, parts_in
from engine.delta.table_reads import lower_options
from engine.errors import RequestError
from engine.spark.plain_sql import bypass_routing

if TYPE_CHECKING:
    _Writer = DataFrameWriterV2
else:
    _Writer = object  # a writer of either kind of session comes after it


class WritesDeltaV2(_Writer):
    """Mixin of writers to a name: leaves tables of other formats to Spark."""

    def __init__(self, frame: DataFrame, table: str, *arguments: Any) -> None:  # noqa: ANN401 - of its kind
        """Build the writer for `df.writeTo`; `arguments` are those of its kind of writer."""
        super().__init__(*(arguments or (frame, table)))
        self._frame, self._session = frame, frame.sparkSession
        self._name, self._source = table, ""
        self._own_options: dict[str, Any] = {}
        self._properties: dict[str, str] = {}
        self._partitions: tuple[str, ...] | None = None
        self._clusters: tuple[str, ...] = ()

    def using(self, provider: str) -> "WritesDeltaV2":
        """Set the format of a new table."""
        super().using(provider)
        self._source = provider
        return self

    def option(self, key: str, value: Any) -> "WritesDeltaV2":  # noqa: ANN401
        """Set an option under Spark's name for it."""
        super().option(key, value)
        self._own_options[key] = value
        return self

    def options(self, **options: Any) -> "WritesDeltaV2":  # noqa: ANN401
        """Set several options under Spark's names for them."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def tableProperty(self, property: str, value: str) -> "WritesDeltaV2":  # noqa: N802
        """Set a property of a new table."""
        super().tableProperty(property, value)
        if property.lower() == "location":  # as Spark's catalogues take it
            self._own_options["path"] = value
        else:
            self._properties[property] = value
        return self

    def partitionedBy(self, col: Any, *cols: Any) -> "WritesDeltaV2":  # noqa: ANN401, N802
        """Set the partition columns of a new table; a Delta table has no transforms."""
        super().partitionedBy(col, *cols)
        self._partitions = tuple(map(_column_name, (col, *cols)))
        return self

    def clusterBy(self, col: str, *cols: str) -> "WritesDeltaV2":  # noqa: N802
        """Set the clustering columns of a new table."""
        super().clusterBy(col, *cols)
        self._clusters = (col, *cols)
        return self

    def create(self) -> None:
        """Make the table."""
        if not is_delta(self._session, self._source):
            super().create()
            return
        with bypass_routing(), delta_errors():
            write = self._build_write()
            if find_delta(self._session, parts_in(self._session, self._name)) is not None:
                raise NameTakenError(self._name)
            new_table(write, self._name, write.options.get("path", ""))

    def replace(self) -> None:
        """Replace the existing table by the frame."""
        if not is_delta(self._session, self._source):
            super().replace()
            return
        with bypass_routing(), delta_errors():
            replace_table(self._build_write(), self._name, must_exist=True)

    def createOrReplace(self) -> None:  # noqa: N802
        """Make the table, or put the frame in its place."""
        if not is_delta(self._session, self._source):
            super().createOrReplace()
            return
        with bypass_routing(), delta_errors():
            replace_table(self._build_write(), self._name, must_exist=False)

    def append(self) -> None:
        """Add the frame's rows, columns by name."""
        with bypass_routing(), delta_errors():
            place = find_delta(self._session, parts_in(self._session, self._name))
            if place is None:
                self._refuse_unknown()
                super().append()
                return
            write = self._build_write()
            append(write, open_existing(write, self._name, place))

    def overwrite(self, condition: Any) -> None:  # noqa: ANN401
        """Replace the rows of a condition."""
        with bypass_routing(), delta_errors():
            place = find_delta(self._session, parts_in(self._session, self._name))
            if place is None:
                self._refuse_unknown()
                super().overwrite(condition)
                return
            write = self._build_write(condition)
            overwrite(write, open_existing(write, self._name, place))

    def overwritePartitions(self) -> None:  # noqa: N802
        """Replace the partitions of the frame's rows."""
        with bypass_routing(), delta_errors():
            place = find_delta(self._session, parts_in(self._session, self._name))
            if place is None:
                self._refuse_unknown()
                super().overwritePartitions()
                return
            write = self._build_write()
            overwrite_partitions(write, open_existing(write, self._name, place))

    def _refuse_unknown(self) -> None:
        if self._source.lower() in PROVIDERS:
            raise NameUnknownError(self._name)

    def _build_write(self, condition: Any = None) -> FrameWrite:  # noqa: ANN401
        return FrameWrite(
            self._frame,
            APPEND,
            lower_options(self._own_options),
            self._properties,
            self._partitions,
            self._clusters,
            condition,
        )


def _column_name(given: Any) -> str:  # noqa: ANN401
    """Return the name of a column to partition by.

    Raises:
        RequestError: it is a function of one.
    """
    text = (
        str(given).removeprefix("Column<'").removesuffix("'>")
        if isinstance(given, Column)
        else given
    )
    if isinstance(given, Column) and "(" in text:
        what = f"A Delta table cannot be partitioned by {text}."
        raise RequestError(what, "Use a column, such as a generated one.", field="partitionedBy")
    return str(text)


class DeltaFrameWriterV2(WritesDeltaV2, DataFrameWriterV2):
    """The writer of a frame in this process."""
