"""A table read by a DataFrame at its latest version at the time of each query.

Every scan of the table in one query reads the same version.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from engine.errors import RequestError
from engine.protocol.features import has_feature
from engine.schema.column_mapping import field_id, physical_name
from engine.schema.types import ArrayType, DataType, MapType, StructField, StructType
from engine.snapshot.snapshot import Snapshot
from engine.spark.table_files import TableFiles
from engine.storage.uri import real_place
from engine.table import DeltaTable

_EXECUTION = "spark.sql.execution.id"
_MOST_READS = 4096
_versions: dict[tuple[str, str, str], int] = {}
"""The version read by a query, by application, query and table location."""
_lock = threading.Lock()


class SchemaChangedSinceAnalysisError(RequestError, code="DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"):
    """The latest version of a table no longer fits a DataFrame over it."""


@dataclass(frozen=True)
class LiveTable:
    """A table behind a DataFrame.

    Attributes:
        table: the table.
        files_of: returns the readers' inputs for a version's files.
        snapshot: the version with the DataFrame's columns.
    """

    table: DeltaTable
    files_of: Callable[[Snapshot], TableFiles]
    snapshot: Snapshot

    @property
    def place(self) -> str:
        """The table's location, the same for all its spellings."""
        return real_place(self.table.uri)

    @property
    def access(self) -> str:
        """The table's location with the options and roots for reading it."""
        options = tuple(sorted(self.table.storage_options.items()))
        return f"{self.place} {hash((options, tuple(self.table.allowed_roots))):x}"

    @property
    def may_have_vectors(self) -> bool:
        """Whether its files may get deletion vectors without a change of its protocol."""
        return has_feature(self.snapshot.protocol, "deletionVectors")

    def latest(self, spark: SparkSession) -> Snapshot:
        """Return the version for the running query: the latest at its first call."""
        context = spark.sparkContext
        execution = context.getLocalProperty(_EXECUTION)
        if execution is None:
            return self.table.snapshot()
        key = (str(context.applicationId), str(execution), self.place)
        with _lock:
            query_version = _versions.get(key)
        if query_version is not None:
            return self.table.snapshot(query_version)
        snapshot = self.table.snapshot()
        with _lock:
            while len(_versions) >= _MOST_READS:
                del _versions[next(iter(_versions))]
            query_version = _versions.setdefault(key, snapshot.version)
        is_first = query_version == snapshot.version
        return snapshot if is_first else self.table.snapshot(query_version)

    def files_at(self, snapshot: Snapshot) -> TableFiles:
        """Return how to read the files of a version under the DataFrame's columns.

        Raises:
            SchemaChangedSinceAnalysisError: the version has other columns.
        """
        before, after = self.files_of(self.snapshot), self.files_of(snapshot)
        changed = _change(before, after)
        has_vectors = any(add.deletion_vector is not None for add in snapshot.add_files())
        if has_vectors and not self.may_have_vectors:
            changed = "files have deletion vectors"
        if changed is not None:
            what = (
                f"{self.table.uri} has changed since the DataFrame was created at version "
                f"{self.snapshot.version}: at version {snapshot.version}, {changed}."
            )
            raise SchemaChangedSinceAnalysisError(
                what, "Create the DataFrame or the view again.", field="source"
            )
        return replace(before, allowed_roots=after.allowed_roots)


def _change(before: TableFiles, after: TableFiles) -> str | None:
    """Return why a later version cannot be read with a version's columns; None if it can."""
    modes = {before.mapping_mode, after.mapping_mode}
    if len(modes) > 1 and "id" in modes:
        return "the column mapping mode is different"
    if list(before.partition_columns) != list(after.partition_columns):
        return "the partition columns are different"
    names = {field.name for field in after.schema}
    for field in before.schema:
        if field.name not in names:
            return f"it has no column {field.name}"
        now = next(other for other in after.schema if other.name == field.name)
        if not _fits(field, now, before.mapping_mode, after.mapping_mode):
            return f"the column {field.name} was replaced or has a different type"
    return None


def _fits(before: StructField, now: StructField, mode: str, mode_now: str) -> bool:
    return (
        physical_name(before, mode) == physical_name(now, mode_now)
        and (mode != "id" or field_id(before) == field_id(now))
        and (before.nullable or not now.nullable)
        and _type_fits(before.type, now.type, mode, mode_now)
    )


def _type_fits(before: DataType, now: DataType, mode: str, mode_now: str) -> bool:
    match before, now:
        case StructType(), StructType():
            later = {field.name: field for field in now}
            return all(
                field.name in later and _fits(field, later[field.name], mode, mode_now)
                for field in before
            )
        case ArrayType(element, nullable), ArrayType(element_now, nullable_now):
            return (nullable or not nullable_now) and _type_fits(
                element, element_now, mode, mode_now
            )
        case MapType(key, value, nullable), MapType(key_now, value_now, nullable_now):
            return (
                (nullable or not nullable_now)
                and _type_fits(key, key_now, mode, mode_now)
                and _type_fits(value, value_now, mode, mode_now)
            )
        case _:
            return before == now
