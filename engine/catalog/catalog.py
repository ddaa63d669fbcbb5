"""Catalogs that decide which commit becomes a version (protocol: Catalog-managed tables).

A writer stages a commit file and asks the catalog to ratify it. The catalog ratifies each version
at most once, in order. A ratified commit is published later, by copying it into the log.
"""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from engine.actions.codec import Action, decode_lines
from engine.actions.commit_info import CommitInfo
from engine.actions.table import DomainMetadata, Metadata
from engine.actions.table import Protocol as TableProtocol
from engine.errors import (
    CatalogError,
    FileExistsAlreadyError,
    FileMissingError,
    GroupRefusedError,
    InvalidCommitError,
    MalformedLogError,
    RequestError,
    VersionTakenError,
)
from engine.errors import UnsupportedFeatureError as Unsupported
from engine.log.management import CATALOG_MANAGED
from engine.log.paths import LOG_DIRECTORY, commit_path
from engine.protocol.features import check_writable, has_feature
from engine.storage.base import Store

STAGED_COMMITS = f"{LOG_DIRECTORY}/_staged_commits"
_FILE_NAME = re.compile(
    r"(?P<version>[0-9]{20})\.[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.json"
)
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_NAME = re.compile(r"(?:`(?:[^`]|``)+`|[^.`]+)(?:\.(?:`(?:[^`]|``)+`|[^.`]+)){2}")
_OF_FILES = (b'{"add":', b'{"remove":', b'{"cdc":')
_REQUIRED = "Correct the client that proposed it."
_BROKEN = "Ask the catalog's administrator to look at it."


@dataclass(frozen=True, slots=True)
class CatalogTableName:
    """A table's name in a catalog, in three parts."""

    catalog: str
    schema: str
    table: str

    @classmethod
    def parse(cls, text: str) -> "CatalogTableName":
        """Parse `catalog.schema.table`; write a part that contains dots in backticks.

        Raises:
            RequestError: it has not three parts.
        """
        parts = [quoted.replace("``", "`") or plain for quoted, plain in _PART.findall(text)]
        if len(parts) != 3 or _NAME.fullmatch(text) is None:
            what = f"{text[:200]!r} is not a name of three parts."
            raise RequestError(what, "Use catalog.schema.table.", field="name")
        return cls(*parts)

    def __str__(self) -> str:
        parts = (self.catalog, self.schema, self.table)
        return ".".join(
            f"`{part.replace('`', '``')}`" if "." in part or "`" in part else part for part in parts
        )


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as its catalog describes it.

    `is_managed` tells whether the catalog decides its commits. `permitted` are the maintenance
    operations that its clients may run. `storage_options` are credentials for its location.
    `required_features` and `required_properties` hold for its first commit.
    """

    name: CatalogTableName
    table_id: str
    location: str
    is_managed: bool = True
    permitted: frozenset[str] = frozenset()
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    required_features: tuple[str, ...] = ()
    required_properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RatifiedCommit:
    """The facts of a staged commit file. `timestamp_ms` is its in-commit timestamp."""

    version: int
    file_name: str
    size_bytes: int
    modified_ms: int
    timestamp_ms: int

    @property
    def path(self) -> str:
        """The staged file, relative to the table's root."""
        return f"{STAGED_COMMITS}/{self.file_name}"

    def check(self) -> None:
        """Check the file's name and the numbers.

        Raises:
            InvalidCommitError: one is not possible.
        """
        match = _FILE_NAME.fullmatch(self.file_name)
        if match is None or not self.file_name.isascii() or int(match["version"]) != self.version:
            what = f"{self.file_name[:200]!r} is not the staged file of version {self.version}."
            raise InvalidCommitError(what, _REQUIRED)
        if self.version < 1 or min(self.size_bytes, self.modified_ms, self.timestamp_ms) < 0:
            what = f"The commit of version {self.version} has an impossible number."
            raise InvalidCommitError(what, _REQUIRED)


@dataclass(frozen=True, slots=True)
class RatifiedCommits:
    """The latest version of a table, and the last commits in order of their versions.

    Every commit that is not yet published is among them.
    """

    latest_version: int
    commits: tuple[RatifiedCommit, ...] = ()

    def check(self) -> "RatifiedCommits":
        """Return the answer, its commits in order.

        Raises:
            InvalidCommitError: the commits are not contiguous up to the latest version.
        """
        commits = tuple(sorted(self.commits, key=lambda commit: commit.version))
        first = self.latest_version - len(commits) + 1
        if [commit.version for commit in commits] != [*range(first, self.latest_version + 1)]:
            versions = ", ".join(str(commit.version) for commit in commits[:20])
            what = (
                f"The catalog answers with commits {versions} up to version {self.latest_version}, "
                "which is not contiguous."
            )
            raise InvalidCommitError(what, _BROKEN)
        for commit in commits:
            commit.check()
        return replace(self, commits=commits)


@dataclass(frozen=True, slots=True)
class ProposedCommit:
    """A staged commit on its way to the catalog, with the definition that it changes."""

    commit: RatifiedCommit
    metadata: Metadata | None = None
    protocol: TableProtocol | None = None
    domains: tuple[DomainMetadata, ...] = ()

    @classmethod
    def from_bytes(cls, version: int, data: bytes) -> "ProposedCommit":
        """Describe a commit's bytes under a new file name.

        Raises:
            InvalidCommitError: they break the protocol of managed tables.
        """
        lines = (line for line in data.split(b"\n") if not line.startswith(_OF_FILES))
        actions = read_actions(b"\n".join(lines), version)
        timestamp_ms = check_provenance(actions, version)
        name = f"{version:020}.{uuid.uuid4()}.json"
        commit = RatifiedCommit(version, name, len(data), 0, timestamp_ms)
        return cls.from_actions(commit, actions)

    @classmethod
    def from_actions(cls, commit: RatifiedCommit, actions: Sequence[Action]) -> "ProposedCommit":
        """Collect the definition that a commit's actions change."""
        return cls(
            commit,
            next((action for action in actions if isinstance(action, Metadata)), None),
            next((action for action in actions if isinstance(action, TableProtocol)), None),
            tuple(action for action in actions if isinstance(action, DomainMetadata)),
        )

    def rename(self) -> "ProposedCommit":
        """Return the proposal under another file name."""
        name = f"{self.commit.version:020}.{uuid.uuid4()}.json"
        return replace(self, commit=replace(self.commit, file_name=name))


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """One table's proposal in a group; `published_version` as in `Catalog.ratify`."""

    table: CatalogTable
    proposal: ProposedCommit
    published_version: int | None


class Catalog(Protocol):
    """A catalog of tables. Its methods may be called by several threads at once.

    Every method raises `CatalogError` if the catalog fails or refuses, and `CatalogDeniedError` if
    it requires other credentials.
    """

    @property
    def name(self) -> str:
        """The catalog's name for messages."""
        ...

    @property
    def commits_groups(self) -> bool:
        """Whether `ratify_group`, and `read_versions` of several tables, are possible."""
        ...

    def resolve_table(self, name: CatalogTableName) -> CatalogTable:
        """Find a table; raise `TableNotFoundError` if the catalog has no such table."""
        ...

    def list_commits(self, table: CatalogTable) -> RatifiedCommits:
        """Return the latest version and at least all unpublished commits.

        Raises:
            CatalogTableMissingError: the table was dropped, or another one has its name.
            InvalidCommitError: the answer breaks the protocol.
        """
        ...

    def ratify(
        self, table: CatalogTable, proposal: ProposedCommit, published_version: int | None
    ) -> None:
        """Ratify a staged commit as the version after the latest.

        `published_version` is the version up to which the caller knows all to be published.

        Raises:
            VersionTakenError: the catalog has ratified this version already.
            UnpublishedLimitError: earlier commits must be published first.
            CatalogTableMissingError: as in `list_commits`.
            InvalidCommitError: the proposal breaks the protocol.
            StorageOutcomeUnknownError: it may or may not have been ratified.
        """
        ...

    def ratify_group(
        self, commits: Sequence[GroupCommit], unchanged: Mapping[CatalogTableName, int]
    ) -> None:
        """Ratify a commit of each of several tables, or none of them.

        `unchanged` are the latest versions that other tables must still have.

        Raises:
            GroupRefusedError: one commit was refused, or a table has changed.
            RequestError: this catalog cannot ratify groups.
            StorageOutcomeUnknownError: all or none may have been ratified.
        """
        ...

    def report_published(self, table: CatalogTable, version: int) -> None:
        """Tell the catalog that all versions up to one are published."""
        ...

    def read_versions(self, tables: Sequence[CatalogTable]) -> tuple[int, ...]:
        """Return the latest versions of several tables at one moment.

        Raises:
            RequestError: this catalog cannot.
        """
        ...

    def stage_table(self, name: CatalogTableName) -> CatalogTable:
        """Reserve an id and a location for a new managed table.

        Raises:
            TableExistsError: the catalog has a table of this name.
        """
        ...

    def register_table(self, staged: CatalogTable, first: ProposedCommit) -> None:
        """Give a staged table its name, once its version 0 is in its log.

        Raises:
            TableExistsError: the catalog has a table of this name.
        """
        ...

    def drop_table(self, name: CatalogTableName) -> None:
        """Remove a table from the catalog. Its files are the catalog's to delete.

        Raises:
            TableNotFoundError: the catalog has no such table.
        """
        ...


@contextmanager
def refuse_group(table_id: str) -> Iterator[None]:
    """Translate the refusal of one table's commit into that of its group.

    Raises:
        GroupRefusedError: names the table.
    """
    try:
        yield
    except (CatalogError, VersionTakenError) as refusal:
        raise GroupRefusedError(table_id, refusal) from refusal


def check_unchanged(table: CatalogTable, latest_version: int, version: int) -> None:
    """Check that a table which a group only read has its version still.

    Raises:
        VersionTakenError: it has a later one.
    """
    if latest_version != version:
        what = f"{table.name} has changed from version {version} to {latest_version}."
        raise VersionTakenError(what)


def read_actions(data: bytes, version: int) -> list[Action]:
    """Decode the actions of a proposed commit.

    Raises:
        InvalidCommitError: they are not lines of JSON with one action each.
    """
    try:
        return list(decode_lines(data))
    except MalformedLogError as error:
        what = f"The commit of version {version} is not a list of actions: {error.what}"
        raise InvalidCommitError(what, _REQUIRED) from error


def check_provenance(actions: Sequence[Action], version: int) -> int:
    """Return a commit's in-commit timestamp.

    Raises:
        InvalidCommitError: its first action is no commit info with a time and a transaction id.
    """
    info = actions[0] if actions else None
    if not isinstance(info, CommitInfo) or info.in_commit_timestamp is None or not info.txn_id:
        what = f"The commit of version {version} does not begin with its time and transaction id."
        raise InvalidCommitError(what, "Begin it with commitInfo.inCommitTimestamp and txnId.")
    return info.in_commit_timestamp


def check_staged_commit(store: Store, commit: RatifiedCommit) -> ProposedCommit:
    """Read a proposed commit from its staged file, for a catalog that is asked to ratify it.

    Raises:
        InvalidCommitError: the file is missing, truncated, not a list of actions, or its protocol
            is not one of managed tables.
        StorageError: it could not be read.
    """
    commit.check()
    try:
        data = store.read(commit.path)
    except FileMissingError as error:
        what = f"There is no staged commit {commit.path} in {store.root}."
        raise InvalidCommitError(what, "Write it before it is proposed.") from error
    if len(data) != commit.size_bytes:
        what = f"{commit.path} has {len(data)} bytes of the {commit.size_bytes} proposed."
        raise InvalidCommitError(what, "Write it whole before it is proposed.")
    actions = read_actions(data, commit.version)
    if check_provenance(actions, commit.version) != commit.timestamp_ms:
        what = f"{commit.path} has another in-commit timestamp than the one proposed."
        raise InvalidCommitError(what, _REQUIRED)
    proposal = ProposedCommit.from_actions(commit, actions)
    if proposal.protocol is not None:
        _check_protocol(store.root, proposal.protocol)
    return proposal


def read_ratified(store: Store, commit: RatifiedCommit) -> bytes:
    """Read a ratified commit from its staged file, which must have its size.

    Raises:
        MalformedLogError: the file was replaced after it was ratified.
        FileMissingError: it was deleted.
    """
    data = store.read(commit.path)
    if len(data) != commit.size_bytes:
        what = f"{commit.path} of {store.root} has {len(data)} bytes, not the {commit.size_bytes} "
        what += "that were ratified."
        raise MalformedLogError(what, "Restore it from a backup of the lake.")
    return data


def publish_commit(store: Store, commit: RatifiedCommit, catalog: str) -> None:
    """Copy a ratified commit into the log, unless it is there; its staged file may be gone then.

    `store` is the plain store of the table's location, `catalog` the catalog's name for messages.

    Raises:
        MalformedLogError: the log has another commit of its version, or the staged file changed.
        StorageError: it could not be copied.
    """
    path = commit_path(commit.version)
    try:
        data = read_ratified(store, commit)
    except (FileMissingError, MalformedLogError):
        status = store.stat(path)
        if status is None or status.size_bytes != commit.size_bytes:
            raise
        return
    try:
        store.put_if_absent(path, data)
    except FileExistsAlreadyError as error:
        if store.read(path) != data:
            what = f"{path} of {store.root} is not the commit that {catalog} ratified."
            raise MalformedLogError(what, "Find the client that wrote it by path.") from error


def _check_protocol(table: str, protocol: TableProtocol) -> None:
    try:
        check_writable(table, protocol)
    except Unsupported as error:
        raise InvalidCommitError(error.what, error.remedy) from error
    if not has_feature(protocol, CATALOG_MANAGED):
        what = f"The commit would make {table} a table that no catalog manages."
        raise InvalidCommitError(what, "Keep the feature catalogManaged.")
