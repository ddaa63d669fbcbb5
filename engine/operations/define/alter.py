"""ALTER TABLE for columns, constraints and clustering: changes of the metadata, without files.

A column is changed, added, moved or dropped at any depth of structs by pure functions over a
schema.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from engine.actions.table import DomainMetadata
from engine.commands.alter import (
    AddColumns,
    AddConstraint,
    ChangeColumn,
    ClusterBy,
    DropColumns,
    DropConstraint,
    RenameColumn,
)
from engine.errors import (
    ExpressionError,
    InvalidSchemaError,
    InvariantViolationError,
    RequestError,
    UnknownColumnError,
)
from engine.expressions.parse import parse_expression
from engine.expressions.render import to_sql
from engine.expressions.traits import columns_of
from engine.operations.execution import Execution
from engine.operations.result import OperationResult, Plan
from engine.operations.write_rows import WriteTerms, build_terms
from engine.protocol.clustering import CLUSTERING_DOMAIN, clustering_paths
from engine.protocol.features import list_supported_features, upgrade
from engine.protocol.properties import CONSTRAINT_PREFIX, STATS_COLUMNS, constraint_name
from engine.schema.assignment import is_storable
from engine.schema.column_mapping import column_mapping_mode, map_columns
from engine.schema.column_paths import (
    ColumnPath,
    column_path,
    parse_column_paths,
    render_column_path,
    render_column_paths,
)
from engine.schema.evolution import TYPE_CHANGES, is_wider
from engine.schema.text_lengths import declare_type, read_declared_type
from engine.schema.types import STRING, DataType, StructField, StructType, type_to_json
from engine.schema.write_errors import (
    AddedDefaultError,
    AddedRuleError,
    ColumnDropError,
    ColumnRenameError,
    ColumnTypeChangeError,
    ConstraintExistsError,
    ConstraintMissingError,
    FieldExistsError,
    NewConstraintViolatedError,
)
from engine.snapshot.new_table import (
    build_clustering_domain,
    check_change_feed,
    check_default,
    check_names,
)
from engine.snapshot.row_rules import DEFAULT, GENERATED, IDENTITY
from engine.snapshot.snapshot import Snapshot, read_clustering_columns
from engine.spark.columns import column, is_true
from engine.spark.own_columns import resolve_in_session
from engine.spark.scan.reader import ScanRequest, scan
from engine.transaction.optimistic_transaction import OptimisticTransaction

Change = Callable[[tuple[StructField, ...]], tuple[StructField, ...]]


def add_columns(command: AddColumns, execution: Execution) -> OperationResult:
    """Run ADD COLUMNS.

    Raises:
        FieldExistsError: a name is taken.
        AddedRuleError: a column is NOT NULL, generated or has a default.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    for field in command.columns:
        if not field.nullable or GENERATED in field.metadata or DEFAULT in field.metadata:
            msg = f"{field.name} would be null in existing rows, so it cannot have a rule yet."
            kind = AddedDefaultError if DEFAULT in field.metadata else AddedRuleError
            raise kind(msg, "Add it without the rule, then change it.", field="columns")
    schema, listed = snapshot.schema, list[dict[str, Any]]()
    for field, inside, first, after in command.list_additions():
        parent = column_path(inside) if inside else ()
        schema = edit(schema, parent, insert_fields((field,), first=first, after=after))
        described = _describe_field(schema, (*parent, field.name))
        listed.append({"column": described, **_position(first=first, after=after)})
    return _commit(execution, txn, schema, "ADD COLUMNS", {"columns": listed})


def drop_columns(command: DropColumns, execution: Execution) -> OperationResult:
    """Run DROP COLUMNS.

    Raises:
        InvalidSchemaError: no column mapping, or a rule or the layout uses a column.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    _check_mapped(snapshot, "dropped", ColumnDropError)
    schema = snapshot.schema
    paths = [column_path(name) for name in command.columns]
    present = [path for path in paths if not command.if_exists or schema.find(path)]
    for path in present:
        _check_free(snapshot, path)
        schema = edit(schema, path[:-1], drop_field(path[-1]))
    names = [render_column_path(path) for path in present]
    if present and "clustering" in list_supported_features(snapshot.protocol):
        txn.stage(_same_clustering(snapshot))
    gone = dict.fromkeys(present, ())
    return _commit(execution, txn, schema, "DROP COLUMNS", {"columns": names}, moved=gone)


def _same_clustering(snapshot: Snapshot) -> DomainMetadata:
    """Restate the current clustering: concurrent clustering by a dropped column then conflicts."""
    domain = snapshot.domains.get(CLUSTERING_DOMAIN)
    return domain or build_clustering_domain(snapshot.schema, (), snapshot.mapping_mode)


def rename_column(command: RenameColumn, execution: Execution) -> OperationResult:
    """Run RENAME COLUMN.

    Raises:
        InvalidSchemaError: no column mapping, a name already taken, or a rule uses the column.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    _check_mapped(snapshot, "renamed", ColumnRenameError)
    path = column_path(command.column)
    _check_rules(snapshot, path)

    def rename(field: StructField) -> StructField:
        return replace(field, name=command.new_name)

    schema = edit(snapshot.schema, path[:-1], change_field(path[-1], rename))
    new_path = (*path[:-1], command.new_name)
    parameters = {"oldColumnPath": command.column, "newColumnPath": render_column_path(new_path)}
    return _commit(execution, txn, schema, "RENAME COLUMN", parameters, moved={path: new_path})


def change_column(command: ChangeColumn, execution: Execution) -> OperationResult:
    """Run ALTER COLUMN.

    Raises:
        ColumnTypeChangeError: the new type is not wider, or type widening is not enabled.
        InvariantViolationError: NOT NULL is requested and a row is null.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    path = column_path(command.column)
    if command.new_type:
        _check_rules(snapshot, path)
    if command.first or command.after:
        change = move_field(path[-1], first=command.first, after=command.after)
    else:
        change = change_field(path[-1], lambda field: _alter_field(command, snapshot, field))
    schema = edit(snapshot.schema, path[:-1], change)
    if command.nullable is False and not execution.options.dry_run:
        _check_no_nulls(execution, txn, snapshot, path)
    described = _describe_field(schema, path)
    parameters = {"column": described, **_position(first=command.first, after=command.after)}
    return _commit(execution, txn, schema, "CHANGE COLUMN", parameters)


def check_default_type(field: StructField) -> None:
    """Refuse a default value of a type the column cannot store.

    Raises:
        InvalidSchemaError: it is of another type, or reads a table.
        ExpressionError: it does not parse, or names a column.
    """
    text = str(field.metadata.get(DEFAULT, "NULL"))
    given = check_default(field, text).type
    is_text_of_another = (
        given == STRING and field.type != STRING
    )  # Spark does not cast defaults in a definition
    if is_text_of_another or not is_storable(given, field.type):
        msg = f"The default {text} is not a value for {field.name}."
        raise InvalidSchemaError(msg, "Cast it.", field="new_default")


def _alter_field(command: ChangeColumn, snapshot: Snapshot, field: StructField) -> StructField:
    metadata = dict(field.metadata)
    new_type = command.parse_new_type()
    if new_type == field.type:
        return field
    if {IDENTITY, GENERATED} & metadata.keys() and (new_type is not None or command.new_default):
        msg = (
            f"The table computes the values of {field.name}, so its type and default cannot change."
        )
        raise InvalidSchemaError(msg, "Add another column.", field="column")
    if new_type is not None:
        wider = widen_field(field, new_type)
        if not snapshot.properties.enable_type_widening:
            msg = f"The type of {field.name} cannot change: type widening is not enabled."
            remedy = "Set delta.enableTypeWidening to true first."
            raise ColumnTypeChangeError(msg, remedy, field="new_type")
        return wider
    if command.nullable is not None:
        return replace(field, nullable=command.nullable)
    if command.comment is not None:
        metadata["comment"] = command.comment
    elif command.new_default:
        metadata[DEFAULT] = command.new_default
        check_default_type(replace(field, metadata=metadata))
    else:
        metadata.pop(DEFAULT, None)
    return replace(field, metadata=metadata)


def _commit(
    execution: Execution,
    txn: OptimisticTransaction,
    schema: StructType,
    operation: str,
    parameters: Mapping[str, Any],
    moved: Mapping[ColumnPath, ColumnPath] | None = None,
) -> OperationResult:
    """Commit a schema; `moved` maps column paths before to those after, () for dropped columns."""
    snapshot = execution.snapshot_of(txn)
    configuration = _update_configuration(snapshot.metadata.configuration, moved or {})
    schema, configuration = map_columns(schema, configuration)
    check_names(schema, column_mapping_mode(configuration))
    check_change_feed(schema, configuration)
    terms = build_terms(WriteTerms.from_snapshot(snapshot), schema, configuration)
    partition_paths = [(name,) for name in snapshot.metadata.partition_columns]
    partitions = [path[0] for path in _update_names(partition_paths, moved or {})]
    metadata = msgspec.structs.replace(terms.metadata, partition_columns=partitions)
    terms = replace(terms, metadata=metadata)
    if execution.options.dry_run:
        what = f"The schema would have {len(schema)} columns; concurrent writes would fail."
        return OperationResult(plan=Plan(what))
    txn.stage(*terms.changes_from(snapshot))
    result = execution.commit(txn, operation, parameters, {})
    return result if txn.actions else result.replace_message("The table already has this schema.")


def _update_configuration(
    configuration: Mapping[str, str], moved: Mapping[ColumnPath, ColumnPath]
) -> dict[str, str]:
    """Rename the columns listed for statistics in the configuration; remove dropped ones."""
    updated = dict(configuration)
    listed = _parse_column_list(updated.get(STATS_COLUMNS, ""))
    left = list(dict.fromkeys(_update_names(listed, moved)))
    if left == listed:
        return updated
    if left:
        updated[STATS_COLUMNS] = render_column_paths(left)
    else:
        del updated[STATS_COLUMNS]
    return updated


def _parse_column_list(text: str) -> list[ColumnPath]:
    """Parse a list of columns; return [] if it is malformed, to leave it unchanged."""
    try:
        return list(parse_column_paths(text))
    except ValueError:
        return []


def _update_names(
    paths: Sequence[ColumnPath], moved: Mapping[ColumnPath, ColumnPath]
) -> list[ColumnPath]:
    """Return the paths under their new names, without dropped columns."""
    for old, new in moved.items():
        paths = [_rename_path(path, old, new) for path in paths]
    return [path for path in paths if path]


def _rename_path(path: ColumnPath, old: ColumnPath, new: ColumnPath) -> ColumnPath:
    """Rename a path if it or its struct was renamed; return () if it was dropped."""
    head = path[: len(old)]
    if [part.lower() for part in head] != [part.lower() for part in old]:
        return path
    return (*new, *path[len(old) :]) if new else ()


def _check_mapped(snapshot: Snapshot, done: str, error: type[InvalidSchemaError]) -> None:
    if snapshot.mapping_mode == "none":
        msg = f"Columns of {snapshot.table_uri} cannot be {done}, because it has no column mapping."
        remedy = "Set delta.columnMapping.mode to 'name' first."
        raise error(msg, remedy, field="columns")


def _check_free(snapshot: Snapshot, path: tuple[str, ...]) -> None:
    """Refuse to drop a partition or clustering column, or a column used by a rule."""
    clustering = [column_path(name)[0] for name in snapshot.clustering_columns]
    laid_out = [*snapshot.metadata.partition_columns, *clustering]
    if any(name.lower() == path[0].lower() for name in laid_out):
        msg = f"{path[0]} is a partition or clustering column."
        raise InvalidSchemaError(msg, "Keep it.", field="columns")
    _check_rules(snapshot, path)


def _check_rules(snapshot: Snapshot, path: tuple[str, ...]) -> None:
    rules = {
        name: text
        for key, text in snapshot.metadata.configuration.items()
        if (name := constraint_name(key)) is not None
    }
    rules.update(
        {f.name: str(f.metadata[GENERATED]) for f in snapshot.schema if GENERATED in f.metadata}
    )
    for name, text in rules.items():
        try:
            named = {
                read_path[0].lower()
                for read_path in columns_of(parse_expression(text, snapshot.schema))
            }
        except ExpressionError:
            named = {path[0].lower()}
        if path[0].lower() in named:
            msg = f"The rule {name} ({text}) uses {path[0]}."
            raise InvalidSchemaError(msg, "Drop the rule first.", field="columns")


def _check_no_nulls(
    execution: Execution, txn: OptimisticTransaction, snapshot: Snapshot, path: tuple[str, ...]
) -> None:
    txn.read_whole_table()
    with execution.spark_stage("look for nulls"):
        rows = scan(
            execution.spark, execution.files_of(snapshot), ScanRequest(snapshot.add_files())
        )
        value = column(path[0])
        for name in path[1:]:
            value = value.getField(name)
        null_rows = rows.filter(value.isNull()).limit(1).count()
    if null_rows:
        msg = f"{'.'.join(path)} is null in a row of {snapshot.table_uri}."
        raise InvariantViolationError(msg, "Correct the row first.")


def _describe_field(schema: StructType, path: Sequence[str]) -> dict[str, Any]:
    """Return a column of the schema as delta-spark's history has it."""
    field = schema.find(path)[-1]
    return {
        "name": render_column_path(path),
        "type": type_to_json(field.type),
        "nullable": field.nullable,
        "metadata": dict(field.metadata),
    }


def _position(*, first: bool, after: str) -> dict[str, str]:
    if first or after:
        return {"position": "FIRST" if first else f"AFTER {after}"}
    return {}


def add_constraint(command: AddConstraint, execution: Execution) -> OperationResult:
    """Run ADD CONSTRAINT after a check of every existing row.

    Raises:
        InvariantViolationError: a row breaks the constraint.
        ConcurrentAppendException: a concurrent commit added rows after the check.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    key = f"{CONSTRAINT_PREFIX}{command.name.lower()}"
    if any(existing.lower() == key for existing in snapshot.metadata.configuration):
        msg = f"The constraint {command.name} already exists."
        raise ConstraintExistsError(msg, "Drop it first.", field="name")
    condition = command.parse_check(snapshot.schema)
    stored = command.render_check(snapshot.schema)
    if execution.options.dry_run:
        return OperationResult(
            plan=Plan(f"The rows of {snapshot.file_count} files would be checked.")
        )
    txn.read_whole_table()
    files = snapshot.add_files()
    if files:
        with execution.spark_stage("check rows"):
            rows = scan(execution.spark, execution.files_of(snapshot), ScanRequest(files))
            rows = resolve_in_session(
                rows, execution.caller, lambda frame: frame.filter(~is_true(condition))
            )
            violations = rows.limit(1).count()
        if violations:
            msg = f"{to_sql(condition)} is false or null for a row of {snapshot.table_uri}."
            raise NewConstraintViolatedError(
                msg, "Correct the row, or allow null in the condition."
            )
    configuration = {**snapshot.metadata.configuration, key: stored}
    terms = build_terms(WriteTerms.from_snapshot(snapshot), snapshot.schema, configuration)
    txn.stage(*terms.changes_from(snapshot))
    parameters = {"name": command.name, "expr": stored}
    return execution.commit(txn, "ADD CONSTRAINT", parameters, {})


def drop_constraint(command: DropConstraint, execution: Execution) -> OperationResult:
    """Run DROP CONSTRAINT.

    Raises:
        ConstraintMissingError: there is no such constraint, without IF EXISTS.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    key_lower = f"{CONSTRAINT_PREFIX}{command.name}".lower()
    before = snapshot.metadata.configuration
    kept = {key: text for key, text in before.items() if key.lower() != key_lower}
    if len(kept) == len(before):
        if command.if_exists:
            return OperationResult(message="The constraint does not exist: nothing was done.")
        msg = f"There is no constraint {command.name}."
        raise ConstraintMissingError(msg, "Check the name.", field="name")
    if execution.options.dry_run:
        return OperationResult(plan=Plan("The constraint would be dropped."))
    txn.stage(msgspec.structs.replace(snapshot.metadata, configuration=kept))
    text = next(before[key] for key in before if key not in kept)
    parameters = {"name": command.name, "expr": text, "existed": True}
    return execution.commit(txn, "DROP CONSTRAINT", parameters, {})


def cluster_by(command: ClusterBy, execution: Execution) -> OperationResult:
    """Run CLUSTER BY: rows move when OPTIMIZE runs.

    Raises:
        RequestError: the table is partitioned.
    """
    txn = execution.begin()
    snapshot = execution.snapshot_of(txn)
    if snapshot.partition_columns:
        msg = (
            f"{snapshot.table_uri} is partitioned. A table cannot be both partitioned and "
            "clustered."
        )
        raise RequestError(msg, "Load it into a clustered table.", field="columns")
    domain = build_clustering_domain(snapshot.schema, command.columns, snapshot.mapping_mode)
    if snapshot.clustering_paths == clustering_paths(domain):
        return OperationResult(message="The table already has these clustering columns.")
    if execution.options.dry_run:
        return OperationResult(plan=Plan("The clustering columns would change, but no row."))
    missing = {"clustering", "domainMetadata"} - list_supported_features(snapshot.protocol)
    if missing:
        txn.stage(upgrade(snapshot.protocol, missing))
    txn.stage(domain)
    parameters = {
        "oldClusteringColumns": ",".join(snapshot.clustering_columns),
        "newClusteringColumns": ",".join(
            read_clustering_columns(domain, snapshot.schema, snapshot.mapping_mode)
        ),
    }
    return execution.commit(txn, "CLUSTER BY", parameters, {})


def edit(schema: StructType, parent: Sequence[str], change: Change) -> StructType:
    """Return the schema with the fields of one struct changed; () is the schema itself.

    Fields inside a column keep their CHAR and VARCHAR lengths, also when moved.

    Raises:
        UnknownColumnError: there is no such struct.
        InvalidSchemaError: the requested field is invalid.
    """
    if not parent:
        return StructType(change(schema.fields))
    field = _struct(schema, parent[0])
    column = declare_type(field, _edit_struct(read_declared_type(field), parent[1:], change))
    return StructType(tuple(column if f is field else f for f in schema.fields))


def _edit_struct(inside: DataType, parent: Sequence[str], change: Change) -> StructType:
    struct = inside if isinstance(inside, StructType) else StructType()
    if not parent:
        return StructType(change(struct.fields))
    field = _struct(struct, parent[0])
    inner = replace(field, type=_edit_struct(field.type, parent[1:], change))
    return StructType(tuple(inner if f is field else f for f in struct.fields))


def _struct(schema: StructType, name: str) -> StructField:
    field = schema.get(name)
    if field is None or not isinstance(field.type, StructType):
        msg = f"There is no struct column {name}."
        raise UnknownColumnError(msg, f"The columns are {', '.join(schema.names[:20])}.")
    return field


def insert_fields(new: Sequence[StructField], *, first: bool, after: str) -> Change:
    """Return a change to insert fields first, after a column, or last."""

    def change(fields: tuple[StructField, ...]) -> tuple[StructField, ...]:
        names = [field.name.lower() for field in fields]
        for added in new:
            if added.name.lower() in names:
                msg = f"The column {added.name} already exists."
                raise FieldExistsError(msg, "Choose another name.", field="columns")
        place = 0 if first else _index(fields, after) + 1 if after else len(fields)
        return (*fields[:place], *new, *fields[place:])

    return change


def drop_field(name: str) -> Change:
    """Return a change dropping a field."""

    def change(fields: tuple[StructField, ...]) -> tuple[StructField, ...]:
        place = _index(fields, name)
        if len(fields) == 1:
            msg = f"{name} is the only column."
            raise InvalidSchemaError(msg, "Drop the table instead.", field="columns")
        return fields[:place] + fields[place + 1 :]

    return change


def change_field(name: str, alter: Callable[[StructField], StructField]) -> Change:
    """Return a change altering a field in place."""

    def change(fields: tuple[StructField, ...]) -> tuple[StructField, ...]:
        place = _index(fields, name)
        new = alter(fields[place])
        others = [field.name.lower() for i, field in enumerate(fields) if i != place]
        if new.name.lower() in others:
            msg = f"The column {new.name} already exists."
            raise InvalidSchemaError(msg, "Choose another name.", field="new_name")
        return (*fields[:place], new, *fields[place + 1 :])

    return change


def move_field(name: str, *, first: bool, after: str) -> Change:
    """Return a change moving a field among its siblings."""

    def change(fields: tuple[StructField, ...]) -> tuple[StructField, ...]:
        place = _index(fields, name)
        rest = fields[:place] + fields[place + 1 :]
        return insert_fields([fields[place]], first=first, after=after)(rest)

    return change


def widen_field(column: StructField, new_type: DataType) -> StructField:
    """Widen a field's type and record the change as in the protocol (Type Widening).

    Raises:
        ColumnTypeChangeError: the type is not wider.
    """
    if not is_wider(column.type, new_type):
        shown, asked = type_to_json(column.type), type_to_json(new_type)
        msg = f"{column.name} cannot change from {shown} to {asked}."
        raise ColumnTypeChangeError(msg, "Only wider types are possible.", field="new_type")
    note = {"fromType": type_to_json(column.type), "toType": type_to_json(new_type)}
    changes = list(column.metadata.get(TYPE_CHANGES, []))
    return replace(
        column, type=new_type, metadata={**column.metadata, TYPE_CHANGES: [*changes, note]}
    )


def _index(fields: tuple[StructField, ...], name: str) -> int:
    for i, field in enumerate(fields):
        if field.name.lower() == name.lower():
            return i
    msg = f"There is no column {name}."
    raise UnknownColumnError(msg, f"The columns are {', '.join(f.name for f in fields[:20])}.")
