"""DataFrame writers' requests to a Delta table, as commands of the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame, SparkSession

from engine.commands.model import Append, Create, DataFrameSource, Overwrite
from engine.delta.creation import (
    NewTableDefinition,
    check_location,
    create_table,
    has_table,
    register_name,
    session_defaults,
)
from engine.delta.handle import AUTO_MERGE, DATA_CHANGE, OPTIONS, Handle
from engine.delta.names import NameTakenError, NotADeltaTableError, find_table_above, open_table
from engine.errors import IllegalOptionError, RequestError, TableExistsError
from engine.snapshot.new_table import is_same_layout
from engine.snapshot.snapshot import Snapshot
from engine.spark.column_trees import GivenColumn
from engine.spark.session_catalog import SessionTable

APPEND, OVERWRITE, ERROR, IGNORE = "append", "overwrite", "error", "ignore"
_SAVE_MODES = {
    APPEND: "Append",
    OVERWRITE: "Overwrite",
    ERROR: "ErrorIfExists",
    IGNORE: "Ignore",
}
"""The modes as the log names them."""


class PartitioningError(RequestError, code="DELTA_METADATA_MISMATCH"):
    """A write requests another layout than the table's."""


class PathExistsError(TableExistsError, code="DELTA_PATH_EXISTS"):
    """`save` may not write to an existing table by its mode."""

    def __init__(self, path: str) -> None:
        """Take the path as the caller gave it."""
        super().__init__(f"A table already exists at {path}.", "Use the mode append or overwrite.")


class WithoutDataError(RequestError, code="DELTA_EMPTY_DATA"):
    """A new table is to hold a DataFrame without columns, whose rows would be lost."""

    def __init__(self) -> None:
        """Build the error, which has no further facts."""
        super().__init__("The DataFrame has no columns.", "Give it at least one.", field="schema")


@dataclass(frozen=True)
class FrameWrite:
    """A pending write of a DataFrame into a table.

    Attributes:
        mode: append, overwrite, error or ignore, if the table exists.
        options: under names in small letters.
        properties: of a new table.
        partition_columns: None if the writer does not set them.
    """

    frame: DataFrame
    mode: str = ERROR
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] | None = None
    clustering_columns: tuple[str, ...] = ()
    replace_where: str | Column | None = None
    description: str = ""

    @property
    def spark(self) -> SparkSession:
        """The session."""
        return self.frame.sparkSession

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Whether an option is true; raise `IllegalOptionError` if it is neither true nor false."""
        text = self.options.get(name, str(default)).lower()
        if text not in {"true", "false"}:
            what = f"{name} is {text[:60]!r}."
            raise IllegalOptionError(what, "Use true or false.", field=name)
        return text == "true"


def new_table(write: FrameWrite, name: str = "", location: str = "") -> None:
    """Make a table with the frame's rows."""
    definition = replace(_definition(write, name, location), replace=write.mode == OVERWRITE)
    create_table(write.spark, definition)


def replace_table(write: FrameWrite, name: str, *, must_exist: bool) -> None:
    """Replace a table by one with the frame's rows."""
    location = write.options.get("path", "")
    definition = _definition(write, name, location)
    create_table(write.spark, replace(definition, replace=True, must_exist=must_exist))


def save_to_path(write: FrameWrite, path: str) -> None:
    """Write as `save` does: into the table at a path, which is created if it does not exist."""
    try:
        table = open_table(write.spark, path)
    except NotADeltaTableError:
        _refuse_inside_another(write.spark, path)
        definition = _definition(write, "", path)
        source = DataFrameSource(write.frame, save_mode=_SAVE_MODES[write.mode])
        create_table(write.spark, replace(definition, source=source))
        return
    if write.mode == ERROR:
        raise PathExistsError(path)
    _write_rows(write, Handle(write.spark, table), path)


def _refuse_inside_another(spark: SparkSession, path: str) -> None:
    """Refuse to create a table in another one's directory, whose VACUUM would delete its files."""
    place = find_table_above(spark, path)
    if place is not None:
        what = f"{path} is inside the Delta table {place}."
        remedy = "Write to that table; replaceWhere replaces a partition of it."
        raise PartitioningError(what, remedy, field="path")


def save_to_name(write: FrameWrite, name: str, place: SessionTable | None) -> None:
    """Write as `saveAsTable` does: into the table of a name, which is created if it does not exist."""
    location = write.options.get("path", "")
    if place is None and location and write.mode == OVERWRITE and has_table(write.spark, location):
        handle = Handle(write.spark, open_table(write.spark, location))
        overwrite(write, handle)
        register_name(write.spark, name, location, handle.table.snapshot().schema)
        return
    if place is None:
        new_table(write, name, location)
        return
    if write.mode == OVERWRITE:
        check_location(name, location, place)
    _write_rows(write, open_existing(write, name, place), name)


def open_existing(write: FrameWrite, name: str, place: SessionTable) -> Handle:
    """Open the existing table of a name."""
    shown = name if place.name else place.location
    return Handle(write.spark, open_table(write.spark, place.location, name=shown), name=place.name)


def _write_rows(write: FrameWrite, handle: Handle, shown: str) -> None:
    if write.mode == IGNORE:
        return
    if write.mode == ERROR:
        raise NameTakenError(shown)
    append(write, handle) if write.mode == APPEND else overwrite(write, handle)


def append(write: FrameWrite, handle: Handle) -> None:
    """Add the frame's rows, columns by name."""
    check_layout(write, handle.table.snapshot())
    handle = _apply_options(write, handle)
    evolves = write.flag("mergeschema") or handle.is_set(AUTO_MERGE)
    handle.run(Append(DataFrameSource(write.frame), merge_schema=evolves))


def overwrite(write: FrameWrite, handle: Handle) -> None:
    """Replace all rows, the rows of a condition, or whole partitions by the frame's rows."""
    source, snapshot = DataFrameSource(write.frame), handle.table.snapshot()
    handle = _apply_options(write, handle)
    where = write.options.get("replacewhere")
    replaces_schema = write.flag("overwriteschema")
    if replaces_schema and _is_other_layout(_complete_layout(write, snapshot), snapshot):
        handle.run(_replacement(write, snapshot))
        return
    check_layout(write, snapshot)
    given = where if write.replace_where is None else write.replace_where
    if given is not None:
        condition = GivenColumn(given, handle.caller())
        handle.run(Overwrite(source, replace_where=condition, overwrite_schema=replaces_schema))
        return
    mode = write.options.get("partitionoverwritemode")
    is_dynamic = mode.lower() == "dynamic" if mode else handle.overwrites_partitions
    dynamic = is_dynamic and bool(snapshot.partition_columns)
    handle.run(
        Overwrite(
            source,
            overwrite_schema=replaces_schema,
            dynamic_partitions=dynamic and not replaces_schema,
        )
    )


def overwrite_partitions(write: FrameWrite, handle: Handle) -> None:
    """Replace the partitions of the frame's rows."""
    overwrite(
        replace(write, options={**write.options, "partitionoverwritemode": "dynamic"}), handle
    )


def _definition(write: FrameWrite, name: str, location: str) -> NewTableDefinition:
    if not write.frame.columns:
        raise WithoutDataError
    own = {key: value for key, value in write.options.items() if key.startswith("delta.")}
    return NewTableDefinition(
        name=name,
        location=location,
        partition_columns=write.partition_columns or (),
        clustering_columns=write.clustering_columns,
        properties={**own, **write.properties},
        description=write.description,
        source=DataFrameSource(write.frame),
        options={name: write.options[key] for key, name in OPTIONS.items() if key in write.options},
    )


def _replacement(write: FrameWrite, snapshot: Snapshot) -> Create:
    """Return a replacement with the frame's schema and partitions; the table's properties stay."""
    return Create(
        source=DataFrameSource(write.frame),
        partition_columns=write.partition_columns or (),
        clustering_columns=write.clustering_columns,
        properties={**session_defaults(write.spark), **snapshot.metadata.configuration},
        replace=True,
        description=snapshot.metadata.description or "",
    )


def _is_other_layout(write: FrameWrite, snapshot: Snapshot) -> bool:
    partitions = write.partition_columns
    other = partitions is not None and not is_same_layout(
        snapshot.schema, partitions, snapshot.partition_columns
    )
    clusters = write.clustering_columns
    return other or bool(
        clusters and not is_same_layout(snapshot.schema, clusters, snapshot.clustering_columns)
    )


def _complete_layout(write: FrameWrite, snapshot: Snapshot) -> FrameWrite:
    """Return a write of all rows with explicit partitions: unset means none."""
    partly = write.replace_where is not None or "replacewhere" in write.options
    if partly or not snapshot.partition_columns:
        return write
    return replace(write, partition_columns=write.partition_columns or ())


def check_layout(write: FrameWrite, snapshot: Snapshot) -> None:
    """Refuse a write that would change the table's layout.

    Raises:
        PartitioningError: other partition or clustering columns than the table's.
    """
    if _is_other_layout(write, snapshot):
        has = ", ".join(snapshot.partition_columns or snapshot.clustering_columns) or "none"
        what = f"The write's partition or clustering columns differ from the table's: {has}."
        raise PartitioningError(
            what, "Leave them out, or overwrite the schema.", field="partitionBy"
        )


def _apply_options(write: FrameWrite, handle: Handle) -> Handle:
    for key, name in OPTIONS.items():
        if key in write.options:
            handle = handle.set_option(name, write.options[key])
    if not write.flag(DATA_CHANGE.lower(), default=True):
        return replace(handle, options={**handle.options, DATA_CHANGE: "false"})
    return handle
