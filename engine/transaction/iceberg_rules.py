"""What a commit must keep to while Iceberg clients read the table (protocol: Iceberg Compatibility V2)."""

from collections.abc import Sequence

from engine.actions.codec import Action
from engine.actions.files import AddFile
from engine.actions.table import Metadata, Protocol
from engine.conflicts.row_counts import physical_rows
from engine.errors import RequestError
from engine.protocol.iceberg_compat import faults_of, has_nested_ids, partitions_fault
from engine.protocol.properties import TableProperties
from engine.schema.column_mapping import mapping_mode, physical_name
from engine.schema.types import parse_schema
from engine.transaction.staging import TableTerms


def check_iceberg_rules(
    actions: Sequence[Action], before: TableTerms | None, after: TableTerms
) -> None:
    """Check what is staged for a table that has the feature enabled; other tables are not looked at.

    Raises:
        RequestError: the table, or a file, would be nothing that Iceberg clients could read.
    """
    properties = TableProperties.parse(after.metadata.configuration)
    is_changed = any(isinstance(action, Metadata | Protocol) for action in actions)
    if is_changed:
        _check_formats(after.table, properties)
    if not properties.iceberg_compat_v2:
        return
    if is_changed:
        _check_table(before, after)
    for action in actions:
        if isinstance(action, AddFile):
            _check_file(action, after.table)


def _check_formats(table: str, properties: TableProperties) -> None:
    others = [target for target in properties.universal_formats if target.lower() != "iceberg"]
    if others:
        what = f"{table} is to be read as {others[0]}, which this engine writes no metadata for."
        remedy = "Leave it out of delta.universalFormat.enabledFormats."
        raise RequestError(what, remedy, field="properties")
    if properties.universal_formats and not properties.iceberg_compat_v2:
        what = f"{table} is to be read as Iceberg, but its files need not fit."
        remedy = "Run REORG TABLE … APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))."
        raise RequestError(what, remedy, field="properties")


def _check_table(before: TableTerms | None, after: TableTerms) -> None:
    schema = parse_schema(after.metadata.schema_string)
    faults = list(faults_of(schema, after.metadata.configuration))
    if before is not None:
        moved = partitions_fault(_partitions(before), _partitions(after))
        faults += [moved] if moved else []
    if not has_nested_ids(schema):
        faults.append("elements of its arrays or maps have no ids")
    if faults:
        what = f"Iceberg clients could not read {after.table}: {'; '.join(faults)}."
        remedy = "Change that, or set delta.enableIcebergCompatV2 to false."
        raise RequestError(what, remedy, field="properties")


def _partitions(terms: TableTerms) -> list[str]:
    schema = parse_schema(terms.metadata.schema_string)
    mode = mapping_mode(terms.metadata.configuration)
    columns = ((name, schema.get(name)) for name in terms.metadata.partition_columns)
    return [name if column is None else physical_name(column, mode) for name, column in columns]


def _check_file(add: AddFile, table: str) -> None:
    if add.deletion_vector is not None:
        what = f"{add.path} has a deletion vector, which Iceberg clients of {table} cannot read."
        raise RequestError(what, "Rewrite the file without its deleted rows.", field="actions")
    if physical_rows(add) is None:
        what = f"{add.path} is staged without its number of rows, which {table} needs for Iceberg."
        raise RequestError(what, "Stage it with statistics that have numRecords.", field="actions")
