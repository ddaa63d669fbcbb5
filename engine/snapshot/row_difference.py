"""Row differences between two versions: rows added, removed and changed.

They come from the change feed if the table has one, else from the files not shared by the versions,
and for a file with another deletion vector from the rows between the two vectors. Rewritten but
unchanged rows are in both versions and cancel out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.files import AddFile
from engine.errors import DataFileError, RequestError, UnknownColumnError, VersionNotFoundError
from engine.expressions.evaluate import find_matches
from engine.expressions.parse import parse_condition
from engine.expressions.traits import columns_of
from engine.expressions.tree import Expression
from engine.log.file_table import adds_of
from engine.schema.types import StructField, StructType
from engine.snapshot.bounded_rows import PERSON_BATCH_BYTES, ReadLimitError
from engine.snapshot.change_feed import (
    CHANGE_TYPE,
    ChangeSource,
    MappingModes,
    is_enabled,
    read_changes,
    rows_as_later,
    sources_of,
)
from engine.snapshot.conform import target_type
from engine.snapshot.data_files import read_deleted_rows
from engine.snapshot.reader import ROW_INDEX, iter_file
from engine.snapshot.row_pairs import pair_by_keys, remove_common_rows
from engine.snapshot.scan import prune
from engine.snapshot.snapshot import Snapshot, live_rows

_BATCH_ROWS = 65_536
_GONE = ("delete", "update_preimage")


class ComparedBy(StrEnum):
    """The source of the compared rows."""

    FEED = "feed"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits on reading; above them a comparison is refused, or cut if it is valid in part."""

    file_bytes: int = 256 * 2**20
    row_bytes: int = 512 * 2**20
    rows_of_one_side: int = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """The rows in the columns of the later version; `before[n]` became `after[n]`.

    Without keys, `before` and `after` are empty: a changed row is one removed and one added.
    `is_whole` is False if reading stopped at a limit: each listed row differs, but there are more;
    the counts say how many, None if unknown. `repeated_keys`: differing rows share a key, so their
    pairing is a guess. `dropped` columns exist only in the earlier version and were not compared.
    """

    compared_by: ComparedBy
    removed: pa.Table
    added: pa.Table
    before: pa.Table
    after: pa.Table
    removed_count: int | None
    added_count: int | None
    file_count: int
    is_whole: bool = True
    repeated_keys: bool = False
    dropped: tuple[str, ...] = ()


def compare_rows(
    table: ChangeSource,
    older_version: int,
    newer_version: int,
    *,
    keys: Sequence[str] = (),
    condition: str = "",
    limits: ReadLimits = ReadLimits(),
) -> RowDifference:
    """Compare the rows of two versions.

    `keys` identify a row: removed and added rows with equal keys are one changed row. A changed row
    is shown if it matches `condition` before or after.

    Raises:
        VersionNotFoundError: the log no longer has one of the versions.
        DataFileError: a file was vacuumed away, or is damaged.
        UnknownColumnError, ExpressionError: a key or the condition is invalid in the later version.
        ReadLimitError: more files differ than may be read at one time.
    """
    newer, older = table.snapshot(newer_version), table.snapshot(older_version)
    names = _key_names(newer.schema, keys)
    where = parse_condition(condition, newer.schema) if condition else None
    pushed = where if where is None or not names or _is_on(where, names) else None
    asked = _RowCondition(where, pushed)
    candidates = _find_difference(table, older, newer, asked, limits)
    removed, added = remove_common_rows(candidates.removed, candidates.added)
    before, after = removed.slice(0, 0), added.slice(0, 0)
    repeated = False
    if names:
        removed, added, before, after, repeated = pair_by_keys(removed, added, names)
    if where is not None:
        removed, added = _filter_rows(where, removed), _filter_rows(where, added)
        both = pc.or_(find_matches(where, before), find_matches(where, after))
        before, after = before.filter(both), after.filter(both)
    gone, came = candidates.counts
    is_whole = (gone, came) == (candidates.removed.num_rows, candidates.added.num_rows)
    return RowDifference(
        compared_by=candidates.compared_by,
        removed=removed,
        added=added,
        before=before,
        after=after,
        removed_count=removed.num_rows if is_whole else gone,
        added_count=added.num_rows if is_whole else came,
        file_count=candidates.file_count,
        is_whole=is_whole,
        repeated_keys=repeated,
        dropped=_list_dropped_columns(older, newer),
    )


@dataclass(frozen=True, slots=True)
class _RowCondition:
    """The row condition, and its part valid for both sides of a changed row."""

    where: Expression | None
    pushed: Expression | None


@dataclass(frozen=True, slots=True)
class _DifferenceRows:
    """Candidate rows; some are in both versions."""

    compared_by: ComparedBy
    removed: pa.Table
    added: pa.Table
    file_count: int
    counts: tuple[int | None, int | None]  # removed and added rows, including unread ones


def _find_difference(
    table: ChangeSource,
    older: Snapshot,
    newer: Snapshot,
    asked: _RowCondition,
    limits: ReadLimits,
) -> _DifferenceRows:
    if is_enabled(older) and is_enabled(newer):
        try:
            return _compare_by_feed(table, older, newer, asked.pushed, limits)
        except (RequestError, VersionNotFoundError, DataFileError):
            pass  # feed not enabled throughout, cleaned up or too large: compare files
    return _compare_by_files(older, newer, asked, limits)


def _compare_by_feed(
    table: ChangeSource,
    older: Snapshot,
    newer: Snapshot,
    condition: Expression | None,
    limits: ReadLimits,
) -> _DifferenceRows:
    changes = read_changes(
        table,
        older.version + 1,
        newer.version,
        most_bytes=limits.file_bytes,
        most_row_bytes=limits.row_bytes,
    )
    kinds = changes.column(CHANGE_TYPE)
    rows = changes.select(newer.schema.names)
    gone = pc.is_in(kinds, value_set=pa.array(_GONE))
    removed, added = rows.filter(gone), rows.filter(pc.invert(gone))
    if condition is not None:
        removed, added = _filter_rows(condition, removed), _filter_rows(condition, added)
    return _DifferenceRows(ComparedBy.FEED, removed, added, 0, (removed.num_rows, added.num_rows))


def _compare_by_files(
    older: Snapshot, newer: Snapshot, asked: _RowCondition, limits: ReadLimits
) -> _DifferenceRows:
    gone, came = _files_apart(older, newer)
    # rows on one side only are not changed rows: the condition decides each
    condition = asked.pushed if gone.num_rows and came.num_rows else asked.where
    came = prune(newer, came, condition)
    if _are_alike(older, newer):
        gone = prune(newer, gone, condition)
    if not gone.num_rows or not came.num_rows:
        return _read_one_side(older, newer, gone, came, condition, limits)
    old, new = adds_of(gone), adds_of(came)
    sizes = {file.path: file.size for file in (*old, *new)}
    if sum(sizes.values()) > limits.file_bytes:
        raise ReadLimitError(older.version, newer.version, limits.file_bytes)
    removed, all_removed = _read(_Side(older, newer, old, new), condition, limits)
    added, all_added = _read(_Side(newer, newer, new, old), condition, limits)
    if not (all_removed and all_added):
        raise ReadLimitError(older.version, newer.version, limits.row_bytes)
    counts = (removed.num_rows, added.num_rows)
    return _DifferenceRows(ComparedBy.FILES, removed, added, len(sizes), counts)


def _read_one_side(
    older: Snapshot,
    newer: Snapshot,
    gone: pa.Table,
    came: pa.Table,
    condition: Expression | None,
    limits: ReadLimits,
) -> _DifferenceRows:
    """Read one side whose files are all the other lacks: every row differs, so a few suffice."""
    most = limits.rows_of_one_side
    removed, all_removed = _read(_Side(older, newer, adds_of(gone), ()), condition, limits, most)
    added, all_added = _read(_Side(newer, newer, adds_of(came), ()), condition, limits, most)
    counts = (
        removed.num_rows if all_removed else _count_recorded_rows(gone, condition),
        added.num_rows if all_added else _count_recorded_rows(came, condition),
    )
    return _DifferenceRows(ComparedBy.FILES, removed, added, gone.num_rows + came.num_rows, counts)


def _count_recorded_rows(files: pa.Table, condition: Expression | None) -> int | None:
    """Count the rows of files from their statistics; return None if there is no exact count."""
    recorded = live_rows(files)
    if condition is not None or recorded.null_count:
        return None
    return int(pc.sum(recorded).as_py() or 0)


def _files_apart(older: Snapshot, newer: Snapshot) -> tuple[pa.Table, pa.Table]:
    """Return the logical files of each version missing from the other."""
    old, new = older.state.files, newer.state.files
    old_keys, new_keys = _file_keys(old), _file_keys(new)
    gone = old.filter(pc.invert(pc.is_in(old_keys, value_set=new_keys)))
    return gone, new.filter(pc.invert(pc.is_in(new_keys, value_set=old_keys)))


def _file_keys(files: pa.Table) -> pa.Array:
    keys = pc.binary_join_element_wise(
        files.column("path"), pc.fill_null(files.column("dv_id"), ""), "\n"
    )
    return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys


def _are_alike(older: Snapshot, newer: Snapshot) -> bool:
    """Return whether a condition means the same in both versions."""
    return (
        older.schema == newer.schema
        and list(older.partition_columns) == list(newer.partition_columns)
        and older.mapping_mode == newer.mapping_mode
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """A version, the later version for its columns, its files, and the other version's files."""

    snapshot: Snapshot
    later: Snapshot
    files: Sequence[AddFile]
    others: Sequence[AddFile]


def _read(
    side: _Side, condition: Expression | None, limits: ReadLimits, most_rows: int | None = None
) -> tuple[pa.Table, bool]:
    """Read the rows of one side; return them and whether they are complete."""
    schema = side.later.schema
    fields = [pa.field(column.name, target_type(column.type)) for column in schema]
    parts, size_bytes, count = [pa.schema(fields).empty_table()], 0, 0
    for rows in _batches(side):
        matching = rows if condition is None else _filter_rows(condition, rows)
        parts.append(matching)
        size_bytes, count = size_bytes + matching.nbytes, count + matching.num_rows
        if size_bytes > limits.row_bytes // 2 or (most_rows is not None and count > most_rows):
            return pa.concat_tables(parts), False
    return pa.concat_tables(parts), True


def _batches(side: _Side) -> Iterator[pa.Table]:
    sources = _sources(side.snapshot, side.later)
    names = list(dict.fromkeys(source.name for source in sources.values() if source is not None))
    others = {file.path: file for file in side.others}
    for file in side.files:
        positions = None
        if file.path in others:
            positions = _find_newly_deleted(side.snapshot, file, others[file.path])
            if not len(positions):
                continue
        batches = iter_file(
            side.snapshot,
            file,
            names,
            with_positions=True,
            batch_rows=_BATCH_ROWS,
            batch_bytes=PERSON_BATCH_BYTES,
        )
        for batch in batches:
            live = batch
            if positions is not None:
                live = batch.filter(pc.is_in(batch.column(ROW_INDEX), value_set=positions))
            yield _convert_to_later_schema(side, live, sources)


def _find_newly_deleted(snapshot: Snapshot, file: AddFile, other: AddFile) -> pa.Array:
    """Return the positions of a file live in one version and deleted in the other."""
    store, roots = snapshot.store, snapshot.allowed_roots
    deleted = read_deleted_rows(store, other, roots) - read_deleted_rows(store, file, roots)
    return pa.array(np.asarray(deleted.to_array(), dtype=np.int64), pa.int64())


def _sources(snapshot: Snapshot, later: Snapshot) -> dict[str, StructField | None]:
    """Map each compared column to its column in a version."""
    return sources_of(
        later.schema, snapshot.schema, MappingModes(snapshot.mapping_mode, later.mapping_mode)
    )


def _convert_to_later_schema(
    side: _Side, rows: pa.Table, sources: dict[str, StructField | None]
) -> pa.Table:
    """Convert rows to the columns and types of the later version; new columns are null."""
    modes = MappingModes(side.snapshot.mapping_mode, side.later.mapping_mode)
    return rows_as_later(rows, sources, side.later.schema, modes, "older")


def _filter_rows(condition: Expression, rows: pa.Table) -> pa.Table:
    return rows.filter(find_matches(condition, rows))


def _key_names(schema: StructType, keys: Sequence[str]) -> list[str]:
    names = []
    for key in keys:
        column = schema.get(key)
        if column is None:
            msg = f"The later version has no column {key[:200]}."
            raise UnknownColumnError(msg, f"It has {', '.join(schema.names[:20])}.", field="keys")
        names.append(column.name)
    return list(dict.fromkeys(names))


def _is_on(condition: Expression, names: Sequence[str]) -> bool:
    key_columns = {name.lower() for name in names}
    return all(path[0].lower() in key_columns for path in columns_of(condition))


def _list_dropped_columns(older: Snapshot, newer: Snapshot) -> tuple[str, ...]:
    used = {source.name for source in _sources(older, newer).values() if source is not None}
    return tuple(name for name in older.schema.names if name not in used)
