"""A version of a table as an immutable value.

Row counts of files are those claimed by statistics: for display, not for decisions.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.actions.files import AddFile
from engine.actions.statistics import read_claimed_rows
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.clock import utc_from_ms
from engine.errors import (
    FileMissingError,
    InvalidSchemaError,
    MalformedLogError,
    UnsupportedFeatureError,
)
from engine.expressions.parse import parse_condition
from engine.expressions.tree import Expression
from engine.log.file_table import adds_of
from engine.log.history import commit_timestamp_ms
from engine.log.management import check_access
from engine.log.replay import TableState, list_newer, load_state, load_table_state
from engine.log.tip import is_in_place
from engine.protocol.clustering import CLUSTERING_DOMAIN, clustering_paths
from engine.protocol.properties import TableProperties
from engine.schema.column_mapping import column_mapping_mode, physical_name
from engine.schema.column_paths import ColumnPath, render_column_path
from engine.schema.evolution import list_unsupported_changes
from engine.schema.partition_values import partition_fields
from engine.schema.types import StructField, StructType, parse_schema
from engine.snapshot.data_files import count_rows
from engine.snapshot.scan import iter_scan, prune, scan
from engine.storage.base import Store


def num_records(stats: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the `numRecords` of every row's statistics, null if there is none."""
    chunks = [
        pa.array([read_claimed_rows(text) for text in chunk.to_pylist()], pa.int64())
        for chunk in stats.chunks
    ]
    return pa.chunked_array(chunks, pa.int64())


def count_deleted_rows(files: pa.Table) -> pa.ChunkedArray:
    """Return the number of rows that each file's deletion vector deletes."""
    return pc.fill_null(pc.struct_field(files.column("deletion_vector"), "cardinality"), 0)


def live_rows(files: pa.Table) -> pa.ChunkedArray:
    """Return the number of live rows of each file, null without a plausible count."""
    left = pc.subtract(num_records(files.column("stats")), count_deleted_rows(files))
    return pc.if_else(pc.greater_equal(left, 0), left, None)


_MAPPING_MODES = ("none", "name", "id")
_REMEMBERED_FILES = 10_000
_LISTED = ["path", "size", "partition_values", "modification_time"]


class Snapshot:
    """A table at one version: its metadata and live files, and its rows on request.

    It is immutable; anything that costs I/O or time is computed on first use.
    """

    def __init__(self, store: Store, state: TableState, allowed_roots: Sequence[str] = ()) -> None:
        """Build a snapshot from a replayed state.

        Raises:
            UnsupportedFeatureError: reading it needs a feature this engine lacks, or its catalog.
            MalformedLogError: the schema is invalid, or lacks a partition column.
        """
        check_access(store, state.protocol, state.metadata.configuration)
        self.store = store
        self.allowed_roots = tuple(allowed_roots)
        self.state = state
        self._left: tuple[Expression, pa.Table] | None = None
        self.schema: StructType = _schema_of(store.root, state.metadata)
        if unknown := list_unsupported_changes(self.schema):
            raise UnsupportedFeatureError(store.root, unknown, "read")

    def __repr__(self) -> str:
        return f"<Snapshot {self.table_uri} version {self.version}>"

    @property
    def table_uri(self) -> str:
        """The location of the table."""
        return self.store.root

    @property
    def version(self) -> int:
        """The version."""
        return self.state.version

    @property
    def protocol(self) -> Protocol:
        """The requirements on readers and writers."""
        return self.state.protocol

    @property
    def metadata(self) -> Metadata:
        """Schema, partitioning and properties as the log has them."""
        return self.state.metadata

    @property
    def set_transactions(self) -> dict[str, SetTransaction]:
        """The last version of every application, by its id."""
        return self.state.set_transactions

    @property
    def domains(self) -> dict[str, DomainMetadata]:
        """The active metadata domains, by name."""
        return self.state.domains

    @property
    def partition_columns(self) -> Sequence[str]:
        """Logical names, as the log spells them."""
        return self.metadata.partition_columns

    @property
    def mapping_mode(self) -> str:
        """Column mapping: `none`, `name` or `id`."""
        return column_mapping_mode(self.metadata.configuration)

    @cached_property
    def properties(self) -> TableProperties:
        """The table properties, parsed.

        Raises:
            InvalidPropertyError: one has a value it cannot take.
        """
        return TableProperties.parse(self.metadata.configuration)

    @cached_property
    def partition_schema(self) -> StructType:
        """The partition columns with their types."""
        return StructType(partition_fields(self.schema, self.partition_columns))

    @cached_property
    def clustering_columns(self) -> tuple[str, ...]:
        """Logical names of the clustering columns, as `column_path` reads them; empty if not clustered."""
        domain = self.domains.get(CLUSTERING_DOMAIN)
        return (
            ()
            if domain is None
            else read_clustering_columns(domain, self.schema, self.mapping_mode)
        )

    @property
    def clustering_paths(self) -> tuple[ColumnPath, ...]:
        """Physical paths of the clustering columns."""
        return clustering_paths(self.domains.get(CLUSTERING_DOMAIN))

    @cached_property
    def timestamp_ms(self) -> int:
        """When the version was committed, in ms since the epoch."""
        return commit_timestamp_ms(self.store, self.state)

    @property
    def timestamp(self) -> datetime:
        """The commit time of the version, in UTC.

        Raises:
            MalformedLogError: the log's time is outside the calendar.
        """
        try:
            return utc_from_ms(self.timestamp_ms)
        except (ValueError, OverflowError, OSError) as error:
            msg = (
                f"Version {self.version} of {self.table_uri} has an invalid commit time of "
                f"{self.timestamp_ms} ms since 1970."
            )
            raise MalformedLogError(msg, "Repair the log with the engine that wrote it.") from error

    @property
    def file_count(self) -> int:
        """Live files."""
        return int(self.state.files.num_rows)

    @cached_property
    def size_bytes(self) -> int:
        """The size of the live files."""
        return int(pc.sum(self.state.files.column("size")).as_py() or 0)

    @cached_property
    def row_count(self) -> int:
        """The number of live rows, for display: from statistics, else from footers.

        A claim of fewer rows than the file's vector deletes is none.

        Raises:
            DataFileError: a footer was needed and is unreadable.
        """
        files = self.state.files
        counts = live_rows(files)
        unknown = files.filter(pc.is_null(counts))
        total = int(pc.sum(counts).as_py() or 0) - int(
            pc.sum(count_deleted_rows(unknown)).as_py() or 0
        )
        paths = unknown.column("path").to_pylist()
        return total + sum(count_rows(self.store, path, self.allowed_roots) for path in paths)

    def files(self, condition: str | Expression | None = None) -> pa.Table:
        """Return the live files possibly holding matching rows, one row each.

        Columns: path, size, partition_values, modification_time, num_records, stats,
        deletion_vector (its descriptor or null), base_row_id. Paths and partition values are as in
        the log.
        """
        return list_files(self._may_match(self._parse_condition(condition)))

    def add_files(
        self, condition: str | Expression | None = None, paths: Iterable[str] | None = None
    ) -> list[AddFile]:
        """Return the live files that may match, as full actions; with `paths`, only these files."""
        if paths is None:
            return adds_of(self._may_match(self._parse_condition(condition)))
        listed_paths = pa.array(list(paths), pa.string())
        rows = self.state.files
        rows = rows.filter(pc.is_in(rows.column("path"), value_set=listed_paths))
        return adds_of(prune(self, rows, self._parse_condition(condition)))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        condition: str | Expression | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Read the rows, with deletion vectors and column mapping applied.

        Args:
            columns: logical names of top-level columns, in the requested order; all by default.
            condition: only rows for which it is true are returned.
            limit: the maximum number of rows; the first ones found.

        Raises:
            DataFileError: a file named by the log is missing or damaged.
            PathOutsideRootError: a file lies outside the table and the allowed roots.
            UnknownColumnError: the schema has no such column.
        """
        return scan(self, self._parse_condition(condition), columns=columns, limit=limit)

    def iter_first_rows(
        self, columns: Sequence[str], condition: str | None, limit: int, batch_bytes: int
    ) -> Iterator[pa.Table]:
        """Yield the rows of `to_arrow` in batches limited in decoded bytes.

        Raises:
            CellLimitError: a row exceeds the limit; otherwise as in `to_arrow`.
        """
        return iter_scan(self, self._parse_condition(condition), columns, limit, batch_bytes)

    def update(self) -> "Snapshot":
        """Load the latest version incrementally; return this snapshot if it is the latest.

        If another table has replaced this one, the new table's snapshot is returned.
        """
        newer = list_newer(self.store, self.state)
        if newer is not None and newer.version == self.version:
            return self
        if newer is None:
            return load_snapshot(self.store, allowed_roots=self.allowed_roots)
        try:
            state = load_state(self.store, newer, self.state)
        except FileMissingError:  # cleaned away since the listing
            return load_snapshot(self.store, allowed_roots=self.allowed_roots)
        return Snapshot(self.store, state, self.allowed_roots)

    def is_in_place(self) -> bool:
        """Return whether the log it was read from certainly still exists and has this version."""
        return is_in_place(self.store, self.state.tip)

    def _may_match(self, condition: Expression | None) -> pa.Table:
        """Return the live files left by a condition; the last result is cached for repeated use.

        Threads share a snapshot, and each may use its own condition.
        """
        left = self._left
        if left is not None and left[0] == condition:
            return left[1]
        rows = prune(self, self.state.files, condition)
        if condition is not None and rows.num_rows <= _REMEMBERED_FILES:
            self._left = (condition, rows)
        return rows

    def _parse_condition(self, condition: str | Expression | None) -> Expression | None:
        return parse_condition(condition, self.schema) if isinstance(condition, str) else condition


def list_files(rows: pa.Table) -> pa.Table:
    """Return the rows of a state's files in the columns of `Snapshot.files`."""
    listed = rows.select([*_LISTED, "stats", "deletion_vector", "base_row_id"])
    return listed.add_column(len(_LISTED), "num_records", num_records(rows.column("stats")))


def load_snapshot(
    store: Store, version: int | None = None, allowed_roots: Sequence[str] = ()
) -> Snapshot:
    """Load a table at a version, by default the latest.

    Raises:
        TableNotFoundError: there is no log.
        VersionNotFoundError: the log no longer has this version.
        MalformedLogError: the log breaks the protocol; `LogGapError` if commits are missing.
        UnsupportedFeatureError: reading it needs a feature this engine lacks.
    """
    state = load_table_state(store, version)
    return Snapshot(store, state, allowed_roots)


def _schema_of(table: str, metadata: Metadata) -> StructType:
    try:
        schema = parse_schema(metadata.schema_string)
    except InvalidSchemaError as error:
        msg = f"The schema of {table} is not valid: {error.what}"
        raise MalformedLogError(msg, "Repair the log with the engine that wrote it.") from error
    mode = column_mapping_mode(metadata.configuration)
    if mode not in _MAPPING_MODES:
        msg = f"{table} maps its columns by {mode[:100]!r}, which is not a column mapping mode."
        raise MalformedLogError(msg, f"The modes are {', '.join(_MAPPING_MODES)}.")
    try:
        partition_fields(schema, metadata.partition_columns)
    except MalformedLogError as error:
        msg = f"The log of {table} cannot be read. {error.what}"
        raise MalformedLogError(msg, error.remedy) from error
    return schema


def read_clustering_columns(
    domain: DomainMetadata, schema: StructType, mode: str
) -> tuple[str, ...]:
    """Return the logical names of the clustering columns in a domain, as `column_path` reads them."""
    paths = clustering_paths(domain)
    return tuple(render_column_path(_logical(path, schema, mode)) for path in paths)


def _logical(path: tuple[str, ...], schema: StructType, mode: str) -> list[str]:
    names: list[str] = []
    inside: Any = schema
    for part in path:
        fields: Iterable[StructField] = inside if isinstance(inside, StructType) else ()
        named = next((field for field in fields if physical_name(field, mode) == part), None)
        names.append(part if named is None else named.name)
        inside = None if named is None else named.type
    return names
