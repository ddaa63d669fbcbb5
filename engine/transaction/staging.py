"""Checks of staged actions: violations of the protocol are refused before anything is written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.actions.codec import Action
from engine.actions.files import AddCDCFile, AddFile, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol, SetTransaction
from engine.conflicts.decide.row_access import physical_rows
from engine.errors import AppendOnlyError, MalformedLogError, RequestError
from engine.protocol.features import check_writable, find_required_features, list_supported_features
from engine.protocol.properties import TableProperties
from engine.schema.column_mapping import column_mapping_mode, physical_name
from engine.schema.partition_values import partition_fields
from engine.schema.types import StructType, parse_schema

_STAGEABLE = (
    AddFile | RemoveFile | AddCDCFile | Metadata | Protocol | SetTransaction | DomainMetadata
)
_ASSUMED = find_required_features(StructType(), {})


@dataclass(frozen=True, slots=True)
class TableTerms:
    """The requirements on a table's writers: metadata and protocol, before or after a commit."""

    table: str
    metadata: Metadata
    protocol: Protocol

    @classmethod
    def apply_actions(
        cls, table: str, before: "TableTerms | None", actions: Iterable[Action]
    ) -> "TableTerms":
        """Apply the actions to the terms read.

        Raises:
            RequestError: there is neither a table nor the actions to create one.
        """
        metadata = before.metadata if before else None
        protocol = before.protocol if before else None
        for action in actions:
            if isinstance(action, Metadata):
                metadata = action
            elif isinstance(action, Protocol):
                protocol = action
        if metadata is None or protocol is None:
            msg = f"The first commit of {table} needs a metaData and a protocol action."
            raise _invalid_actions_error(msg)
        return cls(table, metadata, protocol)

    @property
    def features(self) -> frozenset[str]:
        """The features of the protocol."""
        return list_supported_features(self.protocol)

    @property
    def partition_names(self) -> frozenset[str]:
        """The partition columns' physical names, as in files."""
        schema = parse_schema(self.metadata.schema_string)
        mode = column_mapping_mode(self.metadata.configuration)
        columns = ((name, schema.get(name)) for name in self.metadata.partition_columns)
        return frozenset(
            name if column is None else physical_name(column, mode) for name, column in columns
        )

    @property
    def stamps_commits(self) -> bool:
        """Whether commits carry their own time (protocol: In-Commit Timestamps)."""
        enabled = TableProperties.parse(self.metadata.configuration).in_commit_timestamps
        return enabled and "inCommitTimestamp" in self.features

    @property
    def gives_row_ids(self) -> bool:
        """Whether new rows get ids: row tracking is supported, and not suspended."""
        suspended = TableProperties.parse(self.metadata.configuration).row_tracking_suspended
        return "rowTracking" in self.features and not suspended


def check_staged(
    actions: Sequence[Action], after: TableTerms, before: TableTerms | None = None
) -> None:
    """Check the actions of one commit against each other and against the resulting table.

    Removals must not violate append-only `before` the commit either: RESTORE and REPLACE would
    remove the property together with the rows.

    Raises:
        RequestError: actions contradict each other, or break the protocol.
        UnsupportedFeatureError: the protocol requires a feature this engine cannot write.
        InvalidPropertyError: a property in the metadata is invalid.
        AppendOnlyError: data is removed from an append-only table.
    """
    check_writable(after.table, after.protocol, parse_schema(after.metadata.schema_string))
    _check_kinds(actions)
    _check_duplicates(actions)
    _check_table(actions, after)
    for terms in (before, after):
        if terms is not None:
            _check_append_only(actions, terms)
    partitions = after.partition_names
    for action in actions:
        if isinstance(action, AddFile):
            _check_add(action, after, partitions)
        elif isinstance(action, DomainMetadata) and "domainMetadata" not in after.features:
            what = f"The protocol of {after.table} does not support metadata domains."
            raise _invalid_actions_error(what, "Add the domainMetadata feature first.")


def _check_kinds(actions: Sequence[Action]) -> None:
    for action in actions:
        if not isinstance(action, _STAGEABLE):
            msg = f"A {type(action).__name__} action cannot be staged."
            raise _invalid_actions_error(msg)


def _check_duplicates(actions: Sequence[Action]) -> None:
    seen: set[object] = set()
    for action in actions:
        for name in _names(action):
            if name in seen:
                what = f"One commit cannot have two actions for {_display_name(name)}."
                raise _invalid_actions_error(what, "Stage it once.")
            seen.add(name)


def _names(action: Action) -> tuple[object, ...]:
    """Return the subjects limited to one action per commit."""
    names: tuple[object, ...] = ()
    match action:
        case AddFile():
            names = (("add", action.path), ("file", action.key))
        case RemoveFile():
            names = (("remove", action.path), ("file", action.key))
        case SetTransaction():
            names = (("application", action.app_id),)
        case DomainMetadata():
            names = (("domain", action.domain),)
        case Metadata() | Protocol():
            names = (type(action).__name__,)
        case _:
            pass
    return names


def _display_name(name: object) -> str:
    return " ".join(str(part) for part in name) if isinstance(name, tuple) else str(name)


def _check_table(actions: Sequence[Action], after: TableTerms) -> None:
    """Check the protocol's support for every feature of the new metadata."""
    if not any(isinstance(action, Metadata | Protocol) for action in actions):
        return
    configuration = after.metadata.configuration
    TableProperties.parse(configuration)
    schema = parse_schema(after.metadata.schema_string)
    missing = find_required_features(schema, configuration) - _ASSUMED - after.features
    if missing:
        what = f"The protocol of {after.table} does not support {', '.join(sorted(missing))}."
        raise _invalid_actions_error(what, "Stage a protocol action that adds it.")
    try:
        partition_fields(schema, after.metadata.partition_columns)
    except MalformedLogError as error:
        raise _invalid_actions_error(error.what) from error


def _check_append_only(actions: Sequence[Action], terms: TableTerms) -> None:
    if not TableProperties.parse(terms.metadata.configuration).append_only:
        return
    if any(isinstance(action, RemoveFile) and action.data_change for action in actions):
        what = f"{terms.table} is append-only (delta.appendOnly): its data cannot be removed."
        raise AppendOnlyError(what, "Append only, or set delta.appendOnly to false.")


def _check_add(add: AddFile, after: TableTerms, partitions: frozenset[str]) -> None:
    if add.partition_values.keys() != partitions:
        named, expected = (_join_names(values) for values in (add.partition_values, partitions))
        msg = (
            f"{add.path} is staged with partition values for {named}, but the table has {expected}."
        )
        raise _invalid_actions_error(msg)
    vector = add.deletion_vector
    if vector is not None and "deletionVectors" not in after.features:
        what = (
            f"{add.path} has a deletion vector, which the protocol of {after.table} does not "
            "support."
        )
        raise _invalid_actions_error(what, "Add the deletionVectors feature first.")
    if vector is not None and physical_rows(add) is None:
        what = f"{add.path} is staged without a row count, which its deletion vector needs."
        raise _invalid_actions_error(what, "Stage it with statistics that have numRecords.")


def _join_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _invalid_actions_error(what: str, remedy: str = "Correct the staged action.") -> RequestError:
    return RequestError(what, remedy, field="actions")
