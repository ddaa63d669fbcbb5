"""The net effect of several commits on one version of a table, as the actions of one commit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from engine.actions.codec import Action
from engine.actions.files import AddCDCFile, AddFile, FileKey, RemoveFile
from engine.actions.table import DomainMetadata, Metadata, Protocol
from engine.conflicts.isolation import ROW_TRACKING_DOMAIN
from engine.errors import RequestError
from engine.log.commits import LogCommit
from engine.operations.vacuum_plan import paths_of
from engine.protocol.features import has_feature
from engine.schema.types import parse_schema
from engine.snapshot.snapshot import Snapshot
from engine.spark.write.identity import HIGH_WATER_MARK

_ROW_METRICS = {
    "numTargetRowsInserted": {"WRITE": "numOutputRows", "MERGE": "numTargetRowsInserted"},
    "numTargetRowsUpdated": {"UPDATE": "numUpdatedRows", "MERGE": "numTargetRowsUpdated"},
    "numTargetRowsDeleted": {"DELETE": "numDeletedRows", "MERGE": "numTargetRowsDeleted"},
}
"""The metrics of each operation that add up to one of the transaction."""


@dataclass
class NetEffect:
    """The net effect of private commits on a version of a table.

    A file that was added and removed in between is in no action.

    Attributes:
        base: the version that the transaction read.
        statements: the operation and the parameters of each commit.
        written: the files of the noted commits, also those that later ones replaced.
        step_count: the number of statements on the table.
    """

    base: Snapshot
    statements: list[dict[str, object]] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    step_count: int = 0
    _added: dict[str, AddFile] = field(default_factory=dict)
    _removed: dict[FileKey, RemoveFile] = field(default_factory=dict)
    _terms: dict[object, Action] = field(default_factory=dict)
    _changes: list[AddCDCFile] = field(default_factory=list)
    _metrics: list[Mapping[str, Any]] = field(default_factory=list)

    def note_files(self, commit: LogCommit) -> set[str]:
        """Note the files of a private commit; return those that are new."""
        root = self.base.store.root
        named = [action for action in commit.actions if isinstance(action, AddFile | AddCDCFile)]
        paths = [action.path for action in named if isinstance(action, AddFile)]
        live = self.base.add_files(paths=paths) if paths else []
        in_base = {path for add in live for path in paths_of(root, add)}
        new = {path for action in named for path in paths_of(root, action)}
        new -= in_base | self.written
        self.written |= new
        return new

    def add(self, commit: LogCommit) -> None:
        """Apply one private commit.

        Raises:
            RequestError: its changes cannot be joined with those of earlier commits.
        """
        removes = [action for action in commit.actions if isinstance(action, RemoveFile)]
        adds = [action for action in commit.actions if isinstance(action, AddFile)]
        changes = [action for action in commit.actions if isinstance(action, AddCDCFile)]
        self._check_row_ids(removes, adds)
        for remove in removes:
            earlier = self._added.get(remove.path)
            if earlier is not None and earlier.key == remove.key:
                del self._added[remove.path]
            else:
                self._removed[remove.key] = remove
        self._added |= {add.path: add for add in adds}
        self._changes += changes
        self._terms |= {_subject(action): action for action in _iter_terms(commit.actions)}
        info = commit.commit_info
        operation = {"operation": info.operation if info else ""}
        self._metrics.append((info and info.operation_metrics) or {})
        self.statements.append(operation | dict((info and info.operation_parameters) or {}))
        self._check_change_feed()
        self._check_terms()

    def actions(self) -> tuple[Action, ...]:
        """Return the actions of the commit; new files get their row ids there."""
        kept = self._kept_paths
        adds = (add if add.path in kept else _forget_row_ids(add) for add in self._added.values())
        return *self._removed.values(), *adds, *self._changes, *self._terms.values()

    def count_rows(self) -> dict[str, int | str]:
        """Return the rows that the statements inserted, changed and deleted, under MERGE's names.

        A row that two statements change counts twice. A count that one of them lacks is left out.
        """
        sums: dict[str, int | str] = {}
        for total, names in _ROW_METRICS.items():
            operations = [str(statement["operation"]) for statement in self.statements]
            counts = [
                metrics.get(names[operation])
                for operation, metrics in zip(operations, self._metrics, strict=True)
                if operation in names
            ]
            if None not in counts:
                sums[total] = sum(int(count) for count in counts if count is not None)
        return sums

    def list_superseded(self) -> set[str]:
        """Return the written files that the commit does not name."""
        root = self.base.store.root
        actions: list[AddFile | AddCDCFile] = [*self._added.values(), *self._changes]
        return self.written.difference(*(paths_of(root, action) for action in actions))

    @property
    def _kept_paths(self) -> set[str]:
        """The paths of the base that the commit removes, perhaps to add them with another vector."""
        return {path for path, _ in self._removed}

    def _check_row_ids(self, removes: Sequence[RemoveFile], adds: Sequence[AddFile]) -> None:
        """Refuse to rewrite rows whose ids exist in the private log alone."""
        own = {remove.path for remove in removes} & self._added.keys() - self._kept_paths
        only_takes = {add.path for add in adds} <= {remove.path for remove in removes}
        if own and not only_takes and has_feature(self.base.protocol, "rowTracking"):
            what = (
                "A statement of the transaction changes rows that an earlier one wrote. "
                f"{self.base.table_uri} tracks rows, and gives new ones their ids at the commit."
            )
            remedy = "Write these rows by one statement, or use two transactions."
            raise RequestError(what, remedy, field="steps")

    def _check_change_feed(self) -> None:
        if self._changes and len(self.statements) > 1:
            what = (
                f"{self.base.table_uri} has a change data feed, and change files cannot hold the "
                "net effect of several statements."
            )
            remedy = "Run the statements one by one, or use one MERGE."
            raise RequestError(what, remedy, field="steps")

    def _check_terms(self) -> None:
        for action in self._terms.values():
            changes_columns = isinstance(action, Metadata) and (
                _list_columns(action) != _list_columns(self.base.metadata)
            )
            if changes_columns or isinstance(action, Protocol):
                what = f"A statement of the transaction changes columns of {self.base.table_uri}."
                remedy = "Change the table before the transaction."
                raise RequestError(what, remedy, field="steps")


def _iter_terms(actions: Iterable[Action]) -> Iterator[Action]:
    """Yield the actions on the table as a whole; the commit numbers rows by itself."""
    for action in actions:
        if isinstance(action, DomainMetadata) and action.domain == ROW_TRACKING_DOMAIN:
            continue
        if isinstance(action, Metadata | Protocol | DomainMetadata):
            yield action


def _subject(action: Action) -> object:
    return action.domain if isinstance(action, DomainMetadata) else type(action)


def _list_columns(metadata: Metadata) -> list[object]:
    """Return the columns, without the marks of identity columns, which INSERT moves."""
    return [
        replace(column, metadata={**column.metadata, HIGH_WATER_MARK: None})
        for column in parse_schema(metadata.schema_string)
    ]


def _forget_row_ids(add: AddFile) -> AddFile:
    return msgspec.structs.replace(add, base_row_id=None, default_row_commit_version=None)
