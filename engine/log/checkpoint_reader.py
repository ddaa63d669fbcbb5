"""Reading checkpoints (protocol: Checkpoints): v1, multi-part, v2 in Parquet or JSON, sidecars.

Columns are read by what the file has: writers know different actions, in different orders. Of `add`
and `remove` only the leaves needed for replay are read, never the whole struct. Statistics that are
stored as structs alone become the JSON text of `add.stats`, a whole column at a time: such
checkpoints may name a million files.

A checkpoint is a reconciled state with each file once. Crashed writers and joined parts leave
duplicates, which would duplicate rows: two equal entries count once, and if they differ, the
checkpoint contradicts itself and is refused.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.actions.codec import Action
from engine.actions.commit_info import CheckpointMetadata, CommitInfo, Sidecar, UnknownAction
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.errors import FileMissingError, MalformedLogError
from engine.log.commits import iter_actions
from engine.log.file_table import (
    DELETION_VECTOR,
    FILES,
    NO_FILES,
    NO_TOMBSTONES,
    TOMBSTONES,
    adds_of,
    camel,
    files_table,
    tombstones_table,
)
from engine.log.parquet_limits import is_inflated, reason_of
from engine.log.paths import SIDECAR_DIRECTORY
from engine.log.segment import Checkpoint
from engine.log.subjects import remove_repeats
from engine.schema.civil_time import DAY_MICROS, days_of
from engine.storage.base import Store
from engine.storage.uri import resolve_log_path

_FIRST_DAY, _LAST_DAY = days_of("0001-01-01"), days_of("+10000-01-01")
_CONTROL = "[\x00-\x1f]"


def stats_as_json(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert `stats_parsed` to JSON text; omit values JSON cannot express."""
    return pa.chunked_array([_struct(chunk) for chunk in column.chunks], pa.string())


def _json(array: pa.Array) -> pa.Array:
    """Convert values to JSON text; null for null and for unsupported types such as binary."""
    kind = array.type
    for matches, write in _WRITERS:
        if matches(kind):
            return write(array)
    return pa.nulls(len(array), pa.string())


def _struct(array: pa.StructArray) -> pa.Array:
    """Build JSON objects such as `{"a":1,"b":2}`, without null fields."""
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    parts = []
    for name, child in zip(names, array.flatten(), strict=True):
        parts.append(pc.binary_join_element_wise(f"{json.dumps(name)}:", _json(child), ""))
    head = pa.repeat(
        pa.scalar(""), len(array)
    )  # without it, rows of nulls would vanish in the join
    inside = pc.binary_join_element_wise(head, *parts, ",", null_handling="skip")
    inside = pc.utf8_ltrim(inside, characters=",")
    whole = pc.binary_join_element_wise("{", inside, "}", "")
    return pc.if_else(array.is_valid(), whole, None)


def _text(array: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(array, _CONTROL)).as_py():
        return pa.array(
            [None if text is None else json.dumps(text) for text in array.to_pylist()], pa.string()
        )
    escaped = pc.replace_substring(pc.replace_substring(array, "\\", "\\\\"), '"', '\\"')
    return _quote_texts(escaped)


def _moment(array: pa.Array) -> pa.Array:
    """Format timestamps in ISO 8601 with microseconds, with `Z` if they have a zone."""
    zone = "" if array.type.tz is None else "Z"
    wall = pc.floor_temporal(array, unit="microsecond").cast(pa.int64())
    scale = {"s": 1_000_000, "ms": 1000, "us": 1}.get(array.type.unit)
    micros = pc.multiply(wall, scale) if scale else pc.divide(wall, 1000)
    in_range = _null_outside_range(micros, _FIRST_DAY * DAY_MICROS, _LAST_DAY * DAY_MICROS)
    text = pc.strftime(in_range.cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%S")
    return pc.binary_join_element_wise('"', text, f'{zone}"', "")


def _quote_texts(array: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', array, '"', "")


def _plain_values(array: pa.Array) -> pa.Array:
    return array.cast(pa.string())


def _render_floats(array: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_finite(array), array.cast(pa.string()), None)


def _date(array: pa.Array) -> pa.Array:
    days = _null_outside_range(array.cast(pa.date32()).cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    return _quote_texts(days.cast(pa.date32()).cast(pa.string()))


def _null_outside_range(numbers: pa.Array, first: int, last: int) -> pa.Array:
    """Replace numbers outside [first, last) by null.

    Bounds of other years are omitted: readers could not parse their text.
    """
    within = pc.and_(pc.greater_equal(numbers, first), pc.less(numbers, last))
    return pc.if_else(within, numbers, pa.scalar(None, numbers.type))


_WRITERS = (
    (pa.types.is_struct, _struct),
    (pa.types.is_string, _text),
    (pa.types.is_floating, _render_floats),
    (pa.types.is_timestamp, _moment),
    (pa.types.is_date, _date),
    (pa.types.is_integer, _plain_values),
    (pa.types.is_boolean, _plain_values),
    (pa.types.is_decimal, _plain_values),
)


_WORD = 8
_LONGEST = 512


def distinct_files(files: pa.Table, tombstones: pa.Table, path: str, remedy: str) -> pa.Table:
    """Return the live files of a state, each once.

    `files` and `tombstones` are the rows of its adds and removes, `path` the log file with the
    state, and `remedy` that of a contradiction.

    Raises:
        MalformedLogError: a file is both live and removed, or two rows of it differ.
    """
    ordered = _sort_fingerprints(files.column("path"))
    once = files if _are_distinct(files.column("path"), ordered) else last_of_each(files)
    contradicted = _path_that_differs(files) if once.num_rows < files.num_rows else None
    contradicted = contradicted or _path_in_both(once, tombstones, ordered)
    if contradicted is not None:
        msg = (
            f"{path} contradicts itself: it has two different actions for the file "
            f"{contradicted[:500]}."
        )
        raise MalformedLogError(msg, remedy)
    return once


def last_of_each(rows: pa.Table) -> pa.Table:
    """Return the rows, keeping only the last of each (`path`, `dv_id`)."""
    last = _last_places(rows)
    return rows if len(last) == rows.num_rows else rows.take(pa.array(sorted(last.values())))


def _path_in_both(
    files: pa.Table, tombstones: pa.Table, ordered: NDArray[np.uint64] | None
) -> str | None:
    """Find a path in both; restated files share it with their tombstones, but not their vectors."""
    removed = tombstones
    fingerprints = _fingerprints_of(tombstones.column("path"))
    if ordered is not None and fingerprints is not None:
        shared = _intersect_sorted(ordered, np.sort(fingerprints))
        if not len(shared):
            return None
        removed = tombstones.filter(pa.array(np.isin(fingerprints, shared)))
    live = files.filter(pc.is_in(files.column("path"), value_set=removed.column("path")))
    both = set(_keys(removed)).intersection(_keys(live))
    return min(path for path, _ in both) if both else None


def _path_that_differs(files: pa.Table) -> str | None:
    last = _last_places(files)
    repeats = [(row, last[key]) for row, key in enumerate(_keys(files)) if last[key] != row]
    earlier = files.take(pa.array([row for row, _ in repeats], pa.int64()))
    later = files.take(pa.array([row for _, row in repeats], pa.int64()))
    if earlier.equals(later):
        return None
    pairs = zip(adds_of(earlier), adds_of(later), strict=True)
    return next((one.path for one, other in pairs if one != other), None)


def _keys(rows: pa.Table) -> Iterator[tuple[str, str | None]]:
    paths, vectors = rows.column("path").to_pylist(), rows.column("dv_id").to_pylist()
    return zip(paths, vectors, strict=True)


def _last_places(rows: pa.Table) -> dict[tuple[str, str | None], int]:
    return {key: row for row, key in enumerate(_keys(rows))}


def _are_distinct(paths: pa.ChunkedArray, ordered: NDArray[np.uint64] | None) -> bool:
    """Return whether all paths are distinct; True is proof. Fingerprints compare fastest."""
    if ordered is not None:
        return not bool(np.any(ordered[1:] == ordered[:-1]))
    return bool(pc.count_distinct(paths).as_py() == len(paths))


def _sort_fingerprints(paths: pa.ChunkedArray) -> NDArray[np.uint64] | None:
    fingerprints = _fingerprints_of(paths)
    return None if fingerprints is None else np.sort(fingerprints)


def _intersect_sorted(
    ordered: NDArray[np.uint64], others: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the numbers common to two sorted arrays."""
    places = np.searchsorted(ordered, others)
    inside = places < len(ordered)
    candidates = others[inside]
    shared: NDArray[np.uint64] = candidates[ordered[places[inside]] == candidates]
    return shared


def _fingerprints_of(paths: pa.ChunkedArray) -> NDArray[np.uint64] | None:
    parts = [_fingerprints(chunk) for chunk in paths.chunks if len(chunk)]
    mixed = [part for part in parts if part is not None]
    if len(mixed) < len(parts):
        return None
    return np.concatenate(mixed) if mixed else np.empty(0, np.uint64)


def _fingerprints(texts: pa.StringArray) -> NDArray[np.uint64] | None:
    """Hash each text, eight bytes at a time; return None if this does not pay off."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    longest = int(lengths.max())
    if texts.null_count or lengths.min() < _WORD or longest > _LONGEST:
        return None
    data = texts.buffers()[2]
    words = np.ndarray((data.size - _WORD + 1,), np.uint64, data, strides=(1,))
    mixed = lengths.astype(np.uint64)
    for place in range(0, longest, _WORD):
        word = words[starts + np.minimum(place, lengths - _WORD)]
        mixed = (mixed ^ word) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


_SMALL: dict[str, type[Any]] = {
    "protocol": Protocol,
    "metaData": Metadata,
    "txn": SetTransaction,
    "domainMetadata": DomainMetadata,
    "checkpointMetadata": CheckpointMetadata,
    "sidecar": Sidecar,
}
_BATCH_ROWS = 131_072
_REMEDY = (
    "Delete the checkpoint if the log holds every commit before it, or restore it from a backup."
)


@dataclass(frozen=True)
class CheckpointContent:
    """The content of a checkpoint: its files as rows, each once, and the other actions."""

    actions: Sequence[Action]
    files: pa.Table
    tombstones: pa.Table


@dataclass
class _CheckpointPart:
    """The content of one file of a checkpoint."""

    actions: list[Action] = field(default_factory=list)
    files: list[pa.Table] = field(default_factory=list)
    tombstones: list[pa.Table] = field(default_factory=list)


def read_checkpoint(store: Store, checkpoint: Checkpoint) -> CheckpointContent:
    """Read a checkpoint with its parts and sidecars.

    Raises:
        MalformedLogError: a file of it is missing, damaged, or not a checkpoint; or two actions on
            one subject contradict each other.
    """
    content = _CheckpointPart()
    paths = [file.path for file in checkpoint.files]
    for part in _read_all(store, paths):
        _extend(content, part)
    sidecars = [
        _sidecar_path(store, action) for action in content.actions if isinstance(action, Sidecar)
    ]
    for part in _read_all(store, list(dict.fromkeys(sidecars))):
        _extend(content, part)
    return _reconcile(content, paths[0])


def _reconcile(content: _CheckpointPart, path: str) -> CheckpointContent:
    """Reconcile the content to one action per subject, dropping identical duplicates."""
    actions = remove_repeats(content.actions, path, _REMEDY)
    files = pa.concat_tables([NO_FILES, *content.files])
    tombstones = pa.concat_tables([NO_TOMBSTONES, *content.tombstones])
    return CheckpointContent(actions, distinct_files(files, tombstones, path, _REMEDY), tombstones)


def read_manifest(store: Store, path: str) -> list[Action]:
    """Read the non-file actions of one checkpoint file, sidecars included.

    Raises:
        MalformedLogError: it is missing, damaged, or not a checkpoint.
    """
    with _damage_named(path):
        if path.endswith(".json"):
            return _collect_actions(iter_actions(store, path, _size_of(store, path))).actions
        with store.open_input(path) as source:
            return _small_actions_of(_open_file(source), path)


def _extend(content: _CheckpointPart, part: _CheckpointPart) -> None:
    content.actions += part.actions
    content.files += part.files
    content.tombstones += part.tombstones


def _read_all(store: Store, paths: Sequence[str]) -> Iterator[_CheckpointPart]:
    if len(paths) < 2:
        yield from (_read_file(store, path) for path in paths)
        return
    with ThreadPoolExecutor(4) as pool:
        yield from pool.map(lambda path: _read_file(store, path), paths)


def _sidecar_path(store: Store, sidecar: Sidecar) -> str:
    """Return a sidecar's path: most writers give a file name, some a path or a URL."""
    if "/" not in sidecar.path:
        return f"{SIDECAR_DIRECTORY}/{sidecar.path}"
    return resolve_log_path(store.root, sidecar.path).path


def _read_file(store: Store, path: str) -> _CheckpointPart:
    with _damage_named(path):
        if path.endswith(".json"):
            return _collect_actions(iter_actions(store, path, _size_of(store, path)))
        with store.open_input(path) as source:
            return _read_parquet(source, path)


def _size_of(store: Store, path: str) -> int:
    status = store.stat(path)
    return 0 if status is None else status.size_bytes


def _collect_actions(actions: Iterable[Action]) -> _CheckpointPart:
    adds: list[AddFile] = []
    removes: list[RemoveFile] = []
    content = _CheckpointPart()
    for action in actions:
        match action:
            case AddFile():
                adds.append(action)
            case RemoveFile():
                removes.append(action)
            case CommitInfo() | AddCDCFile() | UnknownAction():
                continue
            case _:
                content.actions.append(action)
    content.files.append(files_table(adds))
    content.tombstones.append(tombstones_table(removes))
    return content


def _open_file(source: pa.NativeFile) -> pq.ParquetFile:
    """Open Parquet of any engine; Spark's INT96 would overflow as nanoseconds."""
    return pq.ParquetFile(
        source, buffer_size=1 << 20, pre_buffer=False, coerce_int96_timestamp_unit="us"
    )


def _read_parquet(source: pa.NativeFile, path: str) -> _CheckpointPart:
    file = _open_file(source)
    if is_inflated(file.metadata.num_rows, source.size()):
        msg = (
            f"The footer of {path} claims {file.metadata.num_rows} actions, more than its "
            "bytes can hold."
        )
        raise MalformedLogError(msg, _REMEDY)
    present = _actions_present(file)
    if not present:
        msg = f"{path} is not a checkpoint: it has no column for an action."
        raise MalformedLogError(msg, _REMEDY)
    content = _CheckpointPart(_small_actions_of(file, path))
    if "add" in present:
        content.files.append(_file_rows(file, "add", FILES))
    if "remove" in present:
        content.tombstones.append(_file_rows(file, "remove", TOMBSTONES))
    return content


def _actions_present(file: pq.ParquetFile) -> set[str]:
    columns = {"add", "remove"} | set(_SMALL)
    return {
        column.name
        for column in file.schema_arrow
        if column.name in columns and pa.types.is_struct(column.type)
    }


def _small_actions_of(file: pq.ParquetFile, path: str) -> list[Action]:
    names = sorted(_actions_present(file) & set(_SMALL))
    columns = file.read(columns=names, use_threads=False) if names else {}
    return [action for name in names for action in _small_actions(columns[name], name, path)]


def _small_actions(column: pa.ChunkedArray, name: str, path: str) -> list[Action]:
    rows = column.drop_null().to_pylist(maps_as_pydicts="lossy")
    spoken = [fields for row in rows if (fields := _plain(row))]  # others hold only nulls
    try:
        return [cast("Action", msgspec.convert(fields, _SMALL[name])) for fields in spoken]
    except msgspec.ValidationError as error:
        msg = f"{path} holds a {name} action that breaks the protocol: {error}."
        raise MalformedLogError(msg, _REMEDY) from error


def _plain(value: Any) -> Any:  # noqa: ANN401 - a Parquet row
    """Drop the nulls of a struct, taken as absent fields, and keep those of a map."""
    if not isinstance(value, dict):
        return value
    maps = {"configuration", "options", "tags"}
    return {k: v if k in maps else _plain(v) for k, v in value.items() if v is not None}


def _file_rows(file: pq.ParquetFile, action: str, schema: pa.Schema) -> pa.Table:
    """Read the rows of `add` or `remove`, in the columns of `schema`."""
    struct = file.schema_arrow.field(action).type
    children = {struct.field(i).name: struct.field(i) for i in range(struct.num_fields)}
    expected = [camel(name) for name in schema.names if name != "dv_id"]
    present = [name for name in expected if name in children]
    if "path" not in present:
        return schema.empty_table()
    leaves = _columns_of(file, action, present)
    stats = leaves.get("stats")
    if "stats_parsed" in children and (stats is None or stats.null_count == len(stats)):
        parsed = _columns_of(file, action, ["path", "stats_parsed"])
        leaves["stats"] = stats_as_json(parsed["stats_parsed"])
    return _conform(leaves, schema)


def _columns_of(
    file: pq.ParquetFile, action: str, names: Sequence[str]
) -> dict[str, pa.ChunkedArray]:
    """Read columns batch by batch, to avoid holding whole pages in memory with the rows."""
    columns = [f"{action}.{name}" for name in names]
    batches = file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False)
    chunks = [_present(batch.column(action)) for batch in batches]
    kind = chunks[0].type if chunks else file.read(columns=columns).column(action).type
    return _leaves(pa.chunked_array(chunks, kind))


def _present(rows: pa.StructArray) -> pa.StructArray:
    """Return the rows with an action of this kind, as a slice without copying if contiguous."""
    there = pc.and_(rows.is_valid(), rows.field("path").is_valid())  # a required path is never null
    count = pc.sum(there).as_py() or 0
    if count == len(rows):
        return rows
    first = there.index(True).as_py() if count else 0
    together = rows.slice(first, count)
    return together if there.slice(first, count).true_count == count else rows.filter(there)


def _leaves(rows: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    names = [rows.type.field(i).name for i in range(rows.type.num_fields)]
    return dict(zip(names, rows.flatten(), strict=True))


def _conform(leaves: dict[str, pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    count = len(leaves["path"])
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for part in schema:
        leaf = leaves.get(camel(part.name))
        if leaf is None:
            columns[part.name] = _nulls(count, part.type)
        elif part.name == "deletion_vector":
            columns[part.name] = _descriptors(leaf)
        else:
            columns[part.name] = leaf if leaf.type == part.type else leaf.cast(part.type)
    columns["dv_id"] = _unique_ids(columns["deletion_vector"])
    if "stats" in columns:
        columns["stats"] = _drop_null_texts(columns["stats"])
    table = pa.table([columns[name] for name in schema.names], schema=schema)
    table.validate(full=True)  # including text that is not UTF-8
    return table


def _nulls(count: int, kind: pa.DataType) -> pa.ChunkedArray:
    """Build a column of nulls in chunks with shared memory."""
    chunk = pa.nulls(min(count, _BATCH_ROWS), kind)
    whole, rest = divmod(count, _BATCH_ROWS)
    return pa.chunked_array([*[chunk] * whole, chunk.slice(0, rest)], kind)


def _drop_null_texts(stats: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace the text `null`, written by some writers for missing statistics, by null."""
    said = pc.equal(stats, "null")
    return pc.if_else(said, None, stats) if pc.any(said).as_py() else stats


def _descriptors(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the struct with the descriptor's fields in snake_case and in order."""
    if column.null_count == len(column):
        return _nulls(len(column), DELETION_VECTOR)
    leaves = _leaves(column)
    arrays = []
    for part in DELETION_VECTOR:
        leaf = leaves.get(camel(part.name))
        array = (
            pa.nulls(len(column), part.type)
            if leaf is None
            else leaf.cast(part.type).combine_chunks()
        )
        arrays.append(array)
    is_inline = pc.equal(arrays[0], "i")  # an offset would change its identity
    arrays[2] = pc.if_else(is_inline, pa.scalar(None, arrays[2].type), arrays[2])
    missing = pc.or_(pc.is_null(column.combine_chunks()), pc.is_null(arrays[0]))
    return pa.chunked_array(
        [pa.StructArray.from_arrays(arrays, fields=list(DELETION_VECTOR), mask=missing)]
    )


def _unique_ids(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return `DeletionVectorDescriptor.unique_id` of every row."""
    if column.null_count == len(column):
        return _nulls(len(column), pa.string())
    kind, place, offset = (pc.struct_field(column, name) for name in DELETION_VECTOR.names[:3])
    tail = pc.if_else(
        pc.is_valid(offset), pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), ""
    )
    return pc.binary_join_element_wise(kind, place, tail, "")


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """Convert the errors of readers on a damaged file to one error with the file's name."""
    try:
        yield
    except FileMissingError as error:
        msg = f"{path}, a file of the checkpoint, is missing."
        raise MalformedLogError(msg, _REMEDY) from error
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        msg = f"{path} cannot be read: {reason_of(error)}."
        raise MalformedLogError(msg, _REMEDY) from error
