"""The change data feed: rows inserted, deleted and updated per version (protocol: Add CDC File).

The changes of a version with `cdc` files are exactly the rows of these. Otherwise rows of an added
file are inserts and rows of a removed one deletes; if only a file's deletion vector changed, the
rows in one vector and not in the other.

All rows are converted to the columns of one version, at every level. A column is identified by its
physical name: a rename keeps it, and a new column under an old name has another one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.actions.table import Metadata
from engine.deletion_vectors.files import read_deletion_vector
from engine.errors import (
    DataFileError,
    FileMissingError,
    LogGapError,
    RequestError,
    VersionNotFoundError,
)
from engine.log.commits import LogCommit, read_commit
from engine.log.history import file_times
from engine.log.segment import list_log_files
from engine.schema.column_mapping import physical_name
from engine.schema.types import (
    STRING,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
)
from engine.snapshot.bounded_rows import PERSON_BATCH_BYTES, ReadLimitError
from engine.snapshot.conform import list_of, map_of, struct_of, target_type
from engine.snapshot.data_files import check_within
from engine.snapshot.reader import iter_physical, live_between
from engine.snapshot.snapshot import Snapshot
from engine.storage.base import Store


@dataclass(frozen=True, slots=True)
class MappingModes:
    """The column mapping of the earlier version and of the later one."""

    earlier: str
    later: str


def sources_of(
    later: Iterable[StructField], earlier: Iterable[StructField], modes: MappingModes
) -> dict[str, StructField | None]:
    """Map each column of the later version to its column in the earlier one; None for new columns.

    If the two share no physical names, as after CREATE OR REPLACE, logical names are compared.
    """
    columns = list(earlier)
    held = {physical_name(column, modes.earlier).lower(): column for column in columns}
    places = {column.name: physical_name(column, modes.later).lower() for column in later}
    if not held.keys() & set(places.values()):
        held = {column.name.lower(): column for column in columns}
        places = {name: name.lower() for name in places}
    return {name: held.get(place) for name, place in places.items()}


def rows_as_later(
    rows: pa.Table,
    sources: Mapping[str, StructField | None],
    later: StructType,
    modes: MappingModes,
    field: str,
) -> pa.Table:
    """Convert rows to the columns and types of a later version; columns without a source are null.

    Raises:
        RequestError: values do not fit a column's later type; the error names `field`.
    """
    at = {name: place for place, name in enumerate(rows.column_names)}
    columns = []
    for column in later:
        source = sources[column.name]
        columns.append(
            pa.chunked_array([pa.nulls(rows.num_rows, target_type(column.type))])
            if source is None
            else _convert_values(rows.column(at[source.name]), source, column, modes, field)
        )
    return pa.Table.from_arrays(columns, names=later.names)


def _convert_values(
    values: pa.ChunkedArray,
    source: StructField,
    column: StructField,
    modes: MappingModes,
    field: str,
) -> pa.ChunkedArray:
    try:
        return convert_to_later_type(values, source.type, column.type, modes)
    except pa.ArrowException as error:
        msg = (
            f"The column {column.name} has a different type in the earlier version, and its "
            "values do not fit that type."
        )
        way = "Compare two versions before the type change, or two versions after it."
        raise RequestError(msg, way, field=field) from error


def convert_to_later_type(
    values: pa.ChunkedArray, earlier: DataType, later: DataType, modes: MappingModes
) -> pa.ChunkedArray:
    """Convert the values of a column to its later type.

    Raises:
        pa.ArrowException: they do not fit.
    """
    kind = target_type(later)
    if earlier == later and values.type == kind:
        return values
    chunks = [_convert_array(chunk, earlier, later, modes) for chunk in values.chunks]
    return pa.chunked_array(chunks, type=kind)


def _convert_array(
    array: pa.Array, earlier: DataType, later: DataType, modes: MappingModes
) -> pa.Array:
    match earlier, later:
        case StructType(), StructType():
            return _struct_as_later(array, earlier, later, modes)
        case ArrayType(element, _), ArrayType(later_element, _):
            return list_of(
                array,
                lambda inner: _convert_array(inner, element, later_element, modes),
                later_element,
            )
        case MapType(key, value, _), MapType(later_key, later_value, _):
            return map_of(
                array,
                lambda keys: _convert_array(keys, key, later_key, modes),
                lambda items: _convert_array(items, value, later_value, modes),
            )
        case _:
            return array.cast(target_type(later))


def _struct_as_later(
    array: pa.Array, earlier: StructType, later: StructType, modes: MappingModes
) -> pa.Array:
    sources = sources_of(later, earlier, modes)
    children = dict(zip(earlier.names, array.flatten(), strict=True))
    columns = []
    for column in later:
        source = sources[column.name]
        columns.append(
            pa.nulls(len(array), target_type(column.type))
            if source is None
            else _convert_array(children[source.name], source.type, column.type, modes)
        )
    return struct_of(array, columns, later)


CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
COMMIT_TIMESTAMP = "_commit_timestamp"
_BATCH_ROWS = 65_536
ENABLED_KEY = "delta.enableChangeDataFeed"


class ChangeSource(Protocol):
    """A table with readable changes, such as a `DeltaTable`."""

    @property
    def store(self) -> Store:
        """The table's log and files."""
        ...

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Return the table at a version."""
        ...


class FeedRangeError(RequestError, code="DELTA_INVALID_CDC_RANGE", sqlstate="22003"):
    """The end of a range of changes lies before its start."""


class FeedStartError(FeedRangeError, code="DELTA_CDC_START_VERSION_AFTER_LATEST"):
    """A range of changes starts after the latest version."""


class ChangesMissingError(RequestError, code="DELTA_MISSING_CHANGE_DATA", sqlstate="KD002"):
    """The change data feed was not enabled at a version of the range."""


def read_changes(
    table: ChangeSource,
    start: int,
    end: int | None = None,
    *,
    most_bytes: int | None = None,
    most_row_bytes: int | None = None,
) -> pa.Table:
    """Read the changed rows of a range of versions, both ends included.

    The columns are the table's as of the last version, then `_change_type` (insert, delete,
    update_preimage, update_postimage), `_commit_version` and `_commit_timestamp`. Nothing is read
    if the files exceed `most_bytes`, and reading stops once the rows exceed `most_row_bytes`.

    Raises:
        ReadLimitError: a limit is exceeded.
        FeedRangeError, FeedStartError: the range is empty.
        ChangesMissingError: the feed was not enabled throughout.
        RequestError: the last version lacks a column of the range.
        VersionNotFoundError: the log no longer has these versions.
        DataFileError: a file has been vacuumed, or is damaged.
    """
    last = table.snapshot(end)
    if not 0 <= start <= last.version:
        msg = f"There are no changes from version {start} to {last.version}."
        kind = FeedStartError if start > table.snapshot().version else FeedRangeError
        raise kind(msg, "Start at the end version or before it.", field="start")
    parts = [_empty(last.schema)]
    first = table.snapshot(start)
    _check_columns(last, first.metadata, start)
    commits, size_bytes = [], 0
    for commit in _commits(table, start, last.version, enabled=is_enabled(first)):
        for action in commit.actions:
            if isinstance(action, Metadata):
                _check_columns(last, action, commit.version)
        size_bytes += sum(file.size or 0 for file in _files_of_changes(commit))
        if most_bytes is not None and size_bytes > most_bytes:
            raise ReadLimitError(start - 1, last.version, most_bytes)
        commits.append(commit)
    batch_bytes = None if most_row_bytes is None else PERSON_BATCH_BYTES
    row_bytes, replaced = 0, _load_replaced_snapshot(table, commits[0])
    terms = [replaced, *[None] * (len(commits) - 1)]
    times = file_times(list_log_files(table.store))
    for rows in (
        _add_commit_columns(rows, commit, times)
        for commit, before in zip(commits, terms, strict=True)
        for rows in _read_version(last, commit, before, batch_bytes)
    ):
        row_bytes += rows.nbytes
        if most_row_bytes is not None and row_bytes > most_row_bytes:
            raise ReadLimitError(start - 1, last.version, most_row_bytes)
        parts.append(rows)
    return pa.concat_tables(parts)


def _check_columns(last: Snapshot, metadata: Metadata, version: int) -> None:
    """Check that the last version has every column of an earlier version."""
    if not metadata.schema_string:  # the schema comes in a later action
        return
    mode = last.mapping_mode
    schema = parse_schema(metadata.schema_string)
    kept = {physical_name(column, mode).lower() for column in last.schema}
    gone = [column.name for column in schema if physical_name(column, mode).lower() not in kept]
    before = [schema.get(name) for name in metadata.partition_columns]
    now = [physical_name(column, mode) for column in last.partition_schema]
    if not gone and [physical_name(column, mode) for column in before if column] == now:
        return
    lost = f"the column {gone[0]}" if gone else "other partitions"
    msg = (
        f"Version {version} of {last.table_uri} had {lost}, which version {last.version} no "
        "longer has."
    )
    raise RequestError(msg, f"Read the changes up to version {version} separately.", field="end")


def _commits(table: ChangeSource, start: int, end: int, *, enabled: bool) -> Iterator[LogCommit]:
    """Yield the commits of a range; raise an error if the feed was not enabled at one."""
    for version in range(start, end + 1):
        try:
            commit = read_commit(table.store, version)
        except FileMissingError as error:
            raise VersionNotFoundError(table.store.root, version, start, end) from error
        for action in commit.actions:
            enabled = _is_enabled_after(action, before=enabled)
        if not enabled:
            msg = (
                f"The change data feed of {table.store.root} was not enabled at version {version}."
            )
            remedy = f"Start at a later version, or set {ENABLED_KEY} for future changes."
            raise ChangesMissingError(msg, remedy, field="start")
        yield commit


def is_enabled(snapshot: Snapshot) -> bool:
    """Return whether the change feed was enabled at a version."""
    return snapshot.properties.enable_change_data_feed


def _is_enabled_after(action: object, *, before: bool) -> bool:
    configuration = getattr(action, "configuration", None)
    if not isinstance(configuration, dict):
        return before
    return str(configuration.get(ENABLED_KEY, "false")).lower() == "true"


def _files_of_changes(commit: LogCommit) -> list[AddCDCFile | AddFile | RemoveFile]:
    """Return the files read by `_changes`; a restated file appears twice."""
    told = [action for action in commit.actions if isinstance(action, AddCDCFile)]
    kinds = (AddFile, RemoveFile)
    return [*told] or [a for a in commit.actions if isinstance(a, kinds) and a.data_change]


def _load_replaced_snapshot(table: ChangeSource, commit: LogCommit) -> Snapshot | None:
    """Load the version before a commit with new metadata and removed files.

    For later commits of a range, `_check_columns` has ruled out such a change.

    Raises:
        RequestError: the log no longer has this version, so the removed files are not readable.
    """
    kinds = {type(action) for action in commit.actions}
    removes = any(isinstance(a, RemoveFile) and a.data_change for a in commit.actions)
    if not removes or Metadata not in kinds or AddCDCFile in kinds or not commit.version:
        return None
    try:
        return table.snapshot(commit.version - 1)
    except (VersionNotFoundError, LogGapError) as error:
        msg = (
            f"Version {commit.version} of {table.store.root} removed rows of version "
            f"{commit.version - 1}, which is no longer in the log, and may have changed its "
            "columns."
        )
        raise RequestError(msg, "Start after that version.", field="start") from error


def _read_version(
    snapshot: Snapshot, commit: LogCommit, before: Snapshot | None, batch_bytes: int | None
) -> Iterator[pa.Table]:
    """Yield the changed rows of a commit; an earlier version of the table brings none of them back."""
    try:
        yield from _changes(snapshot, commit, before, batch_bytes)
    except DataFileError as error:
        remedy = (
            f"Read the changes after version {commit.version}, or restore the file from a "
            "backup. VACUUM also deletes files of changes that are older than "
            "delta.deletedFileRetentionDuration. Raise it to keep future changes longer."
        )
        raise type(error)(error.what, remedy) from error


def _changes(
    snapshot: Snapshot, commit: LogCommit, before: Snapshot | None, batch_bytes: int | None
) -> Iterator[pa.Table]:
    """Yield the changed rows of a commit, with `_change_type`; `before` reads removed files."""
    told = [action for action in commit.actions if isinstance(action, AddCDCFile)]
    if told:
        schema = StructType((*snapshot.schema, StructField(CHANGE_TYPE, STRING)))
        for file in told:
            yield from iter_physical(snapshot, file, schema, _BATCH_ROWS, batch_bytes)
        return
    for change in _iter_changed_files(commit.actions):
        yield from _iter_changed_rows(
            snapshot, change, None if change.added else before, batch_bytes
        )


@dataclass(frozen=True, slots=True)
class _ChangedFile:
    """A path touched by a commit, before and after it."""

    removed: RemoveFile | None
    added: AddFile | None


def _iter_changed_files(actions: Iterable[object]) -> Iterator[_ChangedFile]:
    removes: dict[str, RemoveFile] = {}
    adds: dict[str, AddFile] = {}
    for action in actions:
        if isinstance(action, RemoveFile) and action.data_change:
            removes[action.path] = action
        elif isinstance(action, AddFile) and action.data_change:
            adds[action.path] = action
    for path in {**removes, **adds}:
        yield _ChangedFile(removes.get(path), adds.get(path))


def _iter_changed_rows(
    snapshot: Snapshot, change: _ChangedFile, replaced: Snapshot | None, batch_bytes: int | None
) -> Iterator[pa.Table]:
    file = change.added or _restore_add(replaced or snapshot, change.removed)
    before, after = (
        _read_deleted_rows(snapshot, change.removed),
        _read_deleted_rows(snapshot, change.added),
    )
    start = 0
    for rows in _physical_rows(snapshot, file, replaced, batch_bytes):
        stop = start + rows.num_rows
        was = _live(before, start, stop)
        now = _live(after, start, stop)
        yield _add_change_type(rows.filter(pc.and_not(was, now)), "delete")
        yield _add_change_type(rows.filter(pc.and_not(now, was)), "insert")
        start = stop
    for deleted in (before, after):
        if deleted is not None:
            check_within(deleted, start, file.path)


def _physical_rows(
    snapshot: Snapshot, file: AddFile, replaced: Snapshot | None, batch_bytes: int | None
) -> Iterator[pa.Table]:
    """Yield the rows of a file in a version's columns, even if an earlier version wrote it."""
    if replaced is None:
        yield from iter_physical(snapshot, file, snapshot.schema, _BATCH_ROWS, batch_bytes)
        return
    modes = MappingModes(replaced.mapping_mode, snapshot.mapping_mode)
    sources = sources_of(snapshot.schema, replaced.schema, modes)
    held = {source.name: source for source in sources.values() if source is not None}
    schema = StructType((*held.values(),))
    for rows in iter_physical(replaced, file, schema, _BATCH_ROWS, batch_bytes):
        yield rows_as_later(rows, sources, snapshot.schema, modes, "start")


def _restore_add(snapshot: Snapshot, remove: RemoveFile | None) -> AddFile:
    values = None if remove is None else remove.partition_values
    if remove is None or (values is None and snapshot.partition_columns):
        path = "" if remove is None else remove.path
        msg = f"The log does not record the partition of the removed file {path}."
        raise DataFileError(msg, "Start after that version.")
    return AddFile(
        path=remove.path,
        partition_values=values or {},
        size=remove.size or 0,
        modification_time=0,
        data_change=True,
    )


def _read_deleted_rows(snapshot: Snapshot, file: AddFile | RemoveFile | None) -> BitMap64 | None:
    """Return the rows deleted in a state of a file; None if the file does not exist."""
    if file is None:
        return None
    if file.deletion_vector is None:
        return BitMap64()
    return read_deletion_vector(snapshot.store, file.deletion_vector, snapshot.allowed_roots)


def _live(deleted: BitMap64 | None, start: int, stop: int) -> pa.Array:
    """Return a mask of live rows in a range; all False if the file does not exist."""
    if deleted is None:
        return pa.array(np.zeros(stop - start, dtype=bool))
    return live_between(deleted, start, stop)


def _add_change_type(rows: pa.Table, change_type: str) -> pa.Table:
    return rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(change_type), rows.num_rows))


def _add_commit_columns(rows: pa.Table, commit: LogCommit, times: Mapping[int, int]) -> pa.Table:
    moment = commit_time_scalar(commit_time_ms(commit, times))
    stamped = rows.append_column(
        COMMIT_VERSION, pa.repeat(pa.scalar(commit.version, pa.int64()), rows.num_rows)
    )
    return stamped.append_column(COMMIT_TIMESTAMP, pa.repeat(moment, rows.num_rows))


def commit_time_ms(commit: LogCommit, times: Mapping[int, int]) -> int:
    """Return the time of a commit as history shows it; `times` are file times (`file_times`)."""
    own = commit.commit_info.in_commit_timestamp if commit.commit_info else None
    return times.get(commit.version, commit.timestamp_ms) if own is None else own


def commit_time_scalar(time_ms: int) -> pa.Scalar:
    """Convert a time to the type of `_commit_timestamp`."""
    return pa.scalar(time_ms * 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def _empty(schema: StructType) -> pa.Table:
    fields = [pa.field(column.name, target_type(column.type)) for column in schema]
    own = [
        pa.field(CHANGE_TYPE, pa.string()),
        pa.field(COMMIT_VERSION, pa.int64()),
        pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", tz="UTC")),
    ]
    return pa.schema([*fields, *own]).empty_table()
