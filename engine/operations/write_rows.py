"""Rows into a table: shaped, completed, held to the table's rules, written.

Append, overwrite and create share this; every operation stages the removal or the new deletion
vector of a live file here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from engine.actions.codec import Action
from engine.actions.files import (
    AddCDCFile,
    AddFile,
    DeletionVectorDescriptor,
    RemoveFile,
    tombstone,
)
from engine.actions.table import Metadata, Protocol
from engine.expressions.render import to_sql
from engine.expressions.traits import columns_of
from engine.expressions.tree import Expression
from engine.operations.execution import Execution
from engine.protocol.features import find_required_features, list_supported_features, upgrade
from engine.protocol.properties import TableProperties
from engine.schema.arrow import check_supported
from engine.schema.column_mapping import column_mapping_mode, map_columns
from engine.schema.column_paths import ColumnPath
from engine.schema.evolution import merge_schemas
from engine.schema.types import StructField, StructType, parse_schema
from engine.snapshot.new_table import check_names
from engine.snapshot.snapshot import Snapshot
from engine.spark.columns import is_true
from engine.spark.own_columns import add_own_columns
from engine.spark.sources import SourceRows
from engine.spark.table_files import TableFiles
from engine.spark.write.identity import check_explicit, identity_columns, number_rows
from engine.spark.write.row_checks import describe_row, refuse_violations
from engine.spark.write.shape import check_assignable, fit_to_table
from engine.spark.write.table_rules import complete, enforce
from engine.spark.write.writer import (
    WriteOutput,
    few_rows,
    has_own_partitions,
    rebalance_partitions,
    write,
    write_few,
)


@dataclass(frozen=True)
class WriteTerms:
    """The metadata, protocol and clustering columns (physical) for written rows."""

    metadata: Metadata
    protocol: Protocol
    clustering: tuple[ColumnPath, ...] = ()

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> "WriteTerms":
        """Return the terms of a version.

        Raises:
            UnsupportedTypeError: a column has a type only other engines support.
        """
        check_supported(snapshot.schema)
        return cls(snapshot.metadata, snapshot.protocol, snapshot.clustering_paths)

    @property
    def schema(self) -> StructType:
        """The table's columns."""
        return parse_schema(self.metadata.schema_string)

    def record_identity_marks(self, marked: StructType) -> "WriteTerms":
        """Record the last numbers of identity columns in the schema."""
        if marked == self.schema:
            return self
        metadata = msgspec.structs.replace(self.metadata, schema_string=marked.to_json())
        return replace(self, metadata=metadata)

    def changes_from(self, snapshot: Snapshot) -> list[Action]:
        """Return the actions to stage to bring a table under these terms."""
        actions: list[Action] = []
        if self.protocol != snapshot.protocol:
            actions.append(self.protocol)
        if self.metadata != snapshot.metadata:
            actions.append(self.metadata)
        return actions

    def files(self, execution: Execution) -> TableFiles:
        """Return the description of the table's files for writers."""
        return TableFiles(
            uri=execution.table.uri,
            schema=self.schema,
            partition_columns=tuple(self.metadata.partition_columns),
            properties=TableProperties.parse(self.metadata.configuration),
            storage_options=dict(execution.table.storage_options),
            allowed_roots=execution.table.allowed_roots,
            run_id=execution.run_id,
            max_rows=execution.options.max_rows_per_file,
            clustering=self.clustering,
        )


def write_rows(
    execution: Execution, terms: WriteTerms, rows: SourceRows, must: Expression | None = None
) -> WriteOutput:
    """Write rows under a table's terms, without staging them.

    Every row must satisfy the condition `must` as stored in the table (replaceWhere).

    Raises:
        SchemaMismatchError: the table does not take a column or its type.
        InvariantViolationError: a row breaks one of the table's rules.
        BadRowsError: a row of the source does not fit.
    """
    schema = terms.schema
    check_assignable(schema, rows.schema)
    is_divided = has_own_partitions(rows.frame)
    in_process = execution.options.in_process_bytes and not is_divided
    few = few_rows(rows.frame) if in_process else None
    frame = fit_to_table(rows.frame, rows.schema, schema.fields)
    table = execution.table.uri
    frame = complete(frame, execution.caller, table, schema, execution.now_ms)
    if must is not None:
        names = sorted({path[0] for path in columns_of(must)})
        rule = f"replaceWhere ({to_sql(must)})"
        frame = add_own_columns(frame, [must])
        frame = refuse_violations(frame, is_true(must), rule, describe_row(names))
    frame = enforce(frame, execution.caller, table, schema, terms.metadata)
    files = terms.files(execution)
    with execution.spark_stage("write files"):
        written = write_few(frame, files, few)
        if written is None:
            together = _is_gathered(files, rows, is_divided=is_divided)
            written = write(rebalance_partitions(frame, files) if together else frame, files)
    execution.wrote(written.adds)
    execution.wrote_in_words(written.adds)
    return written


def _is_gathered(files: TableFiles, rows: SourceRows, *, is_divided: bool) -> bool:
    """Return whether to gather rows before writing, as the table requests.

    By default they are gathered if each task would write to many partitions and the program has
    not divided them; otherwise rows keep their original order, which benefits statistics.
    """
    enabled = files.properties.optimize_write
    if enabled is None:
        return bool(files.partition_columns) and not (rows.is_together or is_divided)
    return enabled


def assign_identity(
    execution: Execution, terms: WriteTerms, rows: SourceRows
) -> tuple[SourceRows, WriteTerms]:
    """Add missing identity columns; return the rows and the terms with the last number.

    Raises:
        RequestError: values are given for a column only the table may number.
    """
    schema = terms.schema
    if not identity_columns(schema):
        return rows, terms
    check_explicit(schema, rows.schema)
    with execution.spark_stage("number rows"):
        frame, marked = number_rows(rows.frame, schema, rows.schema)
    own = [
        column
        for column in marked
        if rows.schema.get(column.name) is None and column.name in frame.columns
    ]
    data = StructType((*rows.schema, *(StructField(column.name, column.type) for column in own)))
    return replace(rows, frame=frame, schema=data), terms.record_identity_marks(marked)


def add_columns(terms: WriteTerms, data: StructType) -> WriteTerms:
    """Return the terms with the data's columns missing from the table, at every depth.

    If the table widens types, a column takes the data's type if it is wider.

    Raises:
        InvalidSchemaError: a column's name is not allowed in a table.
        SchemaMismatchError: a column's type is not compatible.
    """
    properties = TableProperties.parse(terms.metadata.configuration)
    schema = merge_schemas(terms.schema, data, widens=properties.enable_type_widening)
    return terms if schema == terms.schema else replace_schema(terms, schema)


def replace_schema(terms: WriteTerms, schema: StructType) -> WriteTerms:
    """Return the terms of a table with its columns replaced."""
    schema, configuration = map_columns(schema, terms.metadata.configuration)
    check_names(schema, column_mapping_mode(configuration))
    return build_terms(terms, schema, configuration)


def file_metrics(written: WriteOutput) -> dict[str, int | str]:
    """Return delta-spark's metrics of a write."""
    return {
        "numFiles": len(written.adds),
        "numOutputBytes": written.size_bytes,
        "numOutputRows": written.rows,
    }


def removal_metrics(removed: Sequence[AddFile]) -> dict[str, int | str]:
    """Return delta-spark's metrics of the files removed by an overwrite."""
    return {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(add.size for add in removed),
    }


def build_terms(terms: WriteTerms, schema: StructType, configuration: dict[str, str]) -> WriteTerms:
    """Return the terms for a schema and configuration, with the features they require."""
    metadata = msgspec.structs.replace(
        terms.metadata, schema_string=schema.to_json(), configuration=configuration
    )
    needed = find_required_features(schema, configuration) - find_required_features(
        StructType(), {}
    )
    missing = needed - list_supported_features(terms.protocol)
    protocol = upgrade(terms.protocol, missing) if missing else terms.protocol
    return replace(terms, metadata=metadata, protocol=protocol)


def removal(
    add: AddFile, *, data_change: bool = True, tags: Mapping[str, str | None] | None = None
) -> RemoveFile:
    """Return the tombstone of a live file; the commit sets its time."""
    removed_file = tombstone(add)
    return msgspec.structs.replace(
        removed_file, data_change=data_change, tags=dict(tags) if tags else removed_file.tags
    )


def rewrite_actions(actions: Sequence[Action], *, data_change: bool) -> list[Action]:
    """Return a write's actions as its caller declares it.

    A write that only rearranges rows says so in its files, and leaves no change feed.
    """
    if data_change:
        return list(actions)
    return [
        msgspec.structs.replace(action, data_change=False)
        if isinstance(action, AddFile | RemoveFile)
        else action
        for action in actions
        if not isinstance(action, AddCDCFile)
    ]


def replace_vector(add: AddFile, vector: DeletionVectorDescriptor, stats: str | None) -> AddFile:
    """Return a file's add action with another deletion vector and matching statistics."""
    return msgspec.structs.replace(add, deletion_vector=vector, stats=stats, data_change=True)
