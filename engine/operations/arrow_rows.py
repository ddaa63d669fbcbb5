"""Rows of small statements in Arrow: when Spark must take over, and how files are written.

Arrow evaluates only expressions with exactly Spark's result (`engine.expressions.evaluate`). Spark
runs all others and every large statement; the choice is made before anything is written.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.files import AddCDCFile, AddFile
from engine.actions.table import Metadata
from engine.errors import (
    CannotEvaluateError,
    DataFileError,
    InvariantViolationError,
    RequestError,
    SchemaMismatchError,
    StatementError,
    UnsupportedFeatureError,
)
from engine.expressions.evaluate import evaluate_arrow
from engine.expressions.session_terms import is_alike_everywhere
from engine.expressions.tree import Call, Expression
from engine.expressions.types import is_complex
from engine.operations.execution import Execution
from engine.operations.run_options import NeedsSparkError
from engine.schema.column_mapping import PHYSICAL_NAME_KEY
from engine.schema.types import LONG, DataType, StructField, StructType
from engine.snapshot.data_files import count_rows
from engine.snapshot.reader import ROW_INDEX, iter_file, read_physical
from engine.snapshot.row_rules import GENERATED
from engine.snapshot.snapshot import Snapshot
from engine.spark.file_writer import FileTarget, write_files
from engine.spark.scan.reader import ROW_COMMIT_VERSION, ROW_ID
from engine.spark.table_files import TableFiles
from engine.spark.write.assignment import Assignments, target_type
from engine.spark.write.incoming_rows import IncomingRows
from engine.spark.write.writer import (
    CHANGE_TYPE,
    WriteOutput,
    change_target,
    data_target,
    sort_by_partition,
)
from engine.storage.local import system_failure

IN_PROCESS = "found in this process, without Spark"
BATCH_ROWS = 16 * 1024  # few rows: a row may be wide
_MOST_TRACKED_ROWS = 16 * 1024 * 1024
_MOST_DECODED_BYTES = 512 * 1024 * 1024
_BESIDE = frozenset({ROW_INDEX, ROW_ID, ROW_COMMIT_VERSION, CHANGE_TYPE})
FOR_SPARK = (
    CannotEvaluateError,
    DataFileError,
    InvariantViolationError,
    RequestError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
"""Errors passed on to Spark, if available: it may succeed, or has a better error."""


def is_small(execution: Execution, files: Sequence[AddFile]) -> bool:
    """Return whether files are small enough to be read in this process.

    Raises:
        NeedsSparkError: they are not, and there is no Spark.
    """
    limit = execution.options.in_process_bytes
    if sum(add.size for add in files) <= limit:
        return limit > 0
    if execution.session is None:
        msg = f"The files to read are larger than {limit:,} bytes, which needs Spark."
        raise NeedsSparkError(msg, "Pass a Spark session, or raise in_process_bytes.")
    return False


def need_spark(execution: Execution, error: Exception) -> None:
    """Raise the error if there is no Spark session to take over."""
    if execution.session is not None:
        return
    if isinstance(error, NeedsSparkError | SchemaMismatchError | StatementError):
        raise error
    if not isinstance(error, CannotEvaluateError | RequestError):
        raise error
    msg = f"This needs Spark, and there is no Spark session: {error.what}"
    raise NeedsSparkError(msg) from error


@dataclass(frozen=True)
class RowTracking:
    """The row ids and row commit versions of one file (protocol: Row Tracking)."""

    ids: pa.ChunkedArray | pa.Array
    versions: pa.ChunkedArray | pa.Array

    @classmethod
    def read(cls, snapshot: Snapshot, table: TableFiles, add: AddFile) -> "RowTracking":
        """Read the row ids and row commit versions of a file.

        Raises:
            CannotEvaluateError: the file has no row ids yet, or too many rows for one process.
        """
        columns = (table.row_id_column, table.row_commit_version_column)
        if add.base_row_id is None or None in columns:
            msg = f"{add.path} has no row ids yet."
            raise CannotEvaluateError(msg)
        count = count_rows(snapshot.store, add.path, snapshot.allowed_roots)
        if count > _MOST_TRACKED_ROWS:
            msg = f"{add.path} has too many rows to process without Spark."
            raise CannotEvaluateError(msg)
        fields = tuple(
            StructField(str(name), LONG, metadata={PHYSICAL_NAME_KEY: str(name)})
            for name in columns
        )
        stored = read_physical(snapshot, add, StructType(fields))
        counted = pa.array(np.arange(stored.num_rows) + add.base_row_id)
        version = pa.scalar(add.default_row_commit_version, pa.int64())
        return cls(
            pc.coalesce(stored.column(0), counted),
            pc.coalesce(stored.column(1), version),
        )

    def add_to(
        self, rows: pa.Table, positions: pa.ChunkedArray, changed: pa.ChunkedArray | pa.Array
    ) -> pa.Table:
        """Append row ids and versions; a changed row keeps its id and takes a new version."""
        versions = self.versions.take(positions)
        none = pa.scalar(None, pa.int64())
        rows = rows.append_column(ROW_ID, self.ids.take(positions))
        return rows.append_column(ROW_COMMIT_VERSION, pc.if_else(changed, none, versions))


def check_plain(schema: StructType, table: TableFiles, assignments: Assignments) -> None:
    """Refuse assignments inside columns, and nested columns under mapped names."""
    if any(len(path) > 1 or is_complex(target_type(schema, path)) for path in assignments):
        msg = "The statement sets a field inside a column."
        raise CannotEvaluateError(msg)
    renamed = table.is_mapped or table.fits_iceberg
    if renamed and any(is_complex(field.type) for field in schema):
        msg = "Nested columns have different names in the files."
        raise CannotEvaluateError(msg)


def check_names(schema: StructType) -> None:
    """Refuse a table whose columns have the names of columns added to rows in this process.

    Raises:
        CannotEvaluateError: the table has one.
    """
    taken = sorted(_BESIDE.intersection(schema.names))
    if taken:
        msg = (
            f"The column {taken[0]} has a name that is reserved for processing rows without Spark."
        )
        raise CannotEvaluateError(msg)


def replace_columns(rows: pa.Table, values: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    """Return the rows with some columns replaced."""
    for name, value in values.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(
            place, rows.schema.field(place), value.cast(rows.schema.types[place])
        )
    return rows


def mark_changes(rows: pa.Table, change_type: str) -> pa.Table:
    """Append a change type to rows, for the change feed."""
    return rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change_type), rows.num_rows))


def write_tables(
    execution: Execution, tables: Iterable[pa.Table], target: FileTarget, table: TableFiles
) -> WriteOutput:
    """Write rows to files; columns: the table's own, the target's others, those of partitions.

    Raises:
        StorageError: the disk or the store does not take them.
    """
    filled = [rows for rows in tables if rows.num_rows]
    if not filled:
        return WriteOutput()
    partitions = [field.name for field in table.partition_fields]
    data = [field.name for field in table.data_fields]
    extra = [name for name in filled[0].column_names if name not in {*partitions, *data}]
    whole = pa.concat_tables([rows.select([*data, *extra, *partitions]) for rows in filled])
    if partitions:
        whole = sort_by_partition(whole, partitions)
    written = WriteOutput()
    try:
        target = replace(target, is_synced_later=True)  # by `make_staged_durable`
        for add, count in write_files(whole.to_batches(), target, 0):
            execution.wrote([add])
            written += WriteOutput((add,), count)
    except OSError as error:
        failure = system_failure("write", f"data files of {table.uri}", error)
        raise failure from error
    return written


def compute_assignments(
    schema: StructType, assignments: Assignments, rows: pa.Table
) -> dict[str, pa.ChunkedArray]:
    """Evaluate assignments over rows; return the values by column name, in the column's type.

    Raises:
        CannotEvaluateError: Arrow cannot evaluate one exactly as Spark does.
    """
    return {
        path[0]: evaluate_as(target_type(schema, path), value, rows)
        for path, value in assignments.items()
    }


def evaluate_as(kind: DataType, value: Expression, rows: pa.Table) -> pa.ChunkedArray:
    """Evaluate an expression over rows and cast the result to `kind`.

    Raises:
        CannotEvaluateError: Arrow cannot evaluate it exactly as Spark does.
    """
    stored = value if value.type == kind else Call("cast", (value,), kind)
    return evaluate_arrow(stored, rows)


@dataclass(frozen=True)
class RuledRows:
    """Rows with missing columns completed and checked against the table's rules.

    Missing generated columns are computed; other missing columns take their defaults.
    """

    incoming: IncomingRows

    @classmethod
    def plan(
        cls, execution: Execution, metadata: Metadata, schema: StructType, given: Sequence[str]
    ) -> "RuledRows":
        """Return the rules of a table for rows of the given columns.

        Raises:
            EngineError: only Spark can evaluate a rule, or only in the caller's session.
        """
        data = StructType(tuple(field for field in schema if field.name in given))
        table, now_ms, by_session = (
            execution.table.uri,
            execution.now_ms,
            not execution.has_engine_terms,
        )
        rows = IncomingRows.plan(table, metadata, schema, data, now_ms, by_session=by_session)
        if by_session and not all(map(is_alike_everywhere, rows.expressions())):
            msg = "A rule of the table depends on the session's time zone or ANSI mode."
            raise CannotEvaluateError(msg)
        return cls(rows)

    def check(self, rows: pa.Table) -> pa.Table:
        """Return these rows with all of the table's columns, in its order.

        Raises:
            InvariantViolationError: a row breaks a rule.
            RequestError: Arrow cannot evaluate a rule for a row.
        """
        given = rows.select(list(self.incoming.given)).combine_chunks()
        batches = given.to_batches() or [pa.RecordBatch.from_pylist([], schema=given.schema)]
        return pa.concat_tables([self.incoming.apply(batch) for batch in batches])


def not_generated(schema: StructType, assigned: Iterable[str]) -> list[str]:
    """List the columns with known values: all except unassigned generated ones."""
    kept = frozenset(assigned)
    return [field.name for field in schema if GENERATED not in field.metadata or field.name in kept]


class FileRows:
    """Live rows of a snapshot's files, read within the memory limit of one process."""

    def __init__(self, snapshot: Snapshot) -> None:
        check_names(snapshot.schema)
        self._snapshot, self._bytes = snapshot, 0

    def read(self, add: AddFile) -> Iterator[pa.Table]:
        """Yield all columns and the positions of a file's rows, in batches.

        Raises:
            CannotEvaluateError: they take too much memory.
        """
        for rows in iter_file(self._snapshot, add, with_positions=True, batch_rows=BATCH_ROWS):
            self._bytes += rows.nbytes
            if self._bytes > _MOST_DECODED_BYTES:
                msg = "The rows need too much memory to process without Spark."
                raise CannotEvaluateError(msg)
            yield rows


def write_rows_and_changes(
    execution: Execution,
    table: TableFiles,
    groups: Iterable[Iterable[pa.Table]],
    changes: Iterable[pa.Table],
    *,
    keep_row_ids: bool,
) -> tuple[WriteOutput, list[AddCDCFile]]:
    """Write data files, one set per group of rows, and the files of the change feed."""
    target, written = data_target(table, keep_row_ids=keep_row_ids), WriteOutput()
    for rows in groups:
        written += write_tables(execution, rows, target, table)
    fed = write_tables(execution, changes, change_target(table), table)
    execution.wrote_in_words(written.adds)
    return written, [
        AddCDCFile(path=add.path, partition_values=add.partition_values, size=add.size)
        for add in fed.adds
    ]
