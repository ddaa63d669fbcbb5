"""The front door: a table by its place."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from engine.actions.commit_info import CommitInfo
from engine.catalog.catalog import Catalog
from engine.catalog.managed_store import build_properties, open_catalog_store, stage_store
from engine.clock import Clock, SystemClock
from engine.errors import RequestError, TableExistsError
from engine.log.history import iter_history, version_at
from engine.log.management import check_management
from engine.log.replay import TableDefinition, load_definition
from engine.log.segment import list_log_files
from engine.schema.types import StructType
from engine.snapshot.new_table import first_actions, layout_parameters
from engine.snapshot.snapshot import Snapshot, load_snapshot
from engine.snapshot.timestamps import timestamp_to_ms
from engine.storage.base import Store
from engine.storage.uri import open_store
from engine.transaction.observer import TransactionObserver
from engine.transaction.optimistic_transaction import OptimisticTransaction
from engine.transaction.pending_commit import DEFAULT_LIMITS, CommitLimits


class DeltaTable:
    """A handle on a table. It remembers the latest snapshot it saw, and reads on from there."""

    transaction_type: ClassVar[type[OptimisticTransaction]] = OptimisticTransaction

    def __init__(
        self,
        store: Store,
        *,
        allowed_roots: Sequence[str] = (),
        clock: Clock | None = None,
        snapshot: Snapshot | None = None,
        storage_options: Mapping[str, str] | None = None,
        limits: CommitLimits = DEFAULT_LIMITS,
    ) -> None:
        """Wrap the table in a store; usually called by `open` and `create`.

        `limits` apply to its transactions by default.
        """
        self.store = store
        self.storage_options: Mapping[str, str] = dict(storage_options or {})
        self.clock: Clock = clock or SystemClock()
        self.limits = limits
        self._allowed_roots = tuple(allowed_roots)
        self._newest = snapshot

    @classmethod
    def open(
        cls,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        catalog: Catalog | None = None,
        allowed_roots: Sequence[str] = (),
        clock: Clock | None = None,
    ) -> "DeltaTable":
        """Open an existing table.

        Args:
            uri: a path, or a URL: file, s3, gs, az, memory; with a catalog, the table's name
                `catalog.schema.table` there.
            storage_options: credentials and endpoints of the object store.
            catalog: the catalog that knows the table, and may decide its commits.
            allowed_roots: locations outside the table its log may refer to (shallow clones).
            clock: the time.

        Raises:
            TableNotFoundError: there is no table.
            MalformedLogError: its log breaks the protocol.
            UnsupportedFeatureError: reading it needs a feature this engine lacks;
                `CatalogManagedTableError` if it needs its catalog.
            CatalogError: the catalog failed or refused.
        """
        if catalog is None:
            store = open_store(uri, storage_options)
        else:
            store, storage_options = open_catalog_store(catalog, uri, storage_options or {}, clock)
        snapshot = load_snapshot(store, allowed_roots=allowed_roots)
        return cls(
            store,
            allowed_roots=allowed_roots,
            clock=clock,
            snapshot=snapshot,
            storage_options=storage_options,
        )

    @classmethod
    def definition_of(
        cls,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        version: int | None = None,
    ) -> TableDefinition:
        """Read a table's protocol and metadata without its files, by default at the latest version.

        Raises:
            TableNotFoundError: there is no table.
            VersionNotFoundError: the log no longer has this version.
            MalformedLogError: its log breaks the protocol.
            CatalogManagedTableError: the table must be opened through its catalog.
        """
        store = open_store(uri, storage_options)
        definition = load_definition(store, version)
        check_management(store, definition.protocol, definition.metadata.configuration)
        return definition

    @classmethod
    def create(  # noqa: PLR0913 - the options of CREATE TABLE
        cls,
        uri: str,
        schema: "StructType | str",
        partition_columns: Sequence[str] = (),
        clustering_columns: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        catalog: Catalog | None = None,
        clock: Clock | None = None,
    ) -> "DeltaTable":
        """Create an empty table at version 0. A schema in text is Delta's JSON.

        Tables without partitions get deletion vectors, clustered ones row tracking too, unless the
        properties say otherwise. With a catalog, `uri` is the table's name there, and the catalog
        chooses its location and decides its commits.

        Raises:
            TableExistsError: the table already exists.
            CatalogError: the catalog failed or refused.
            ProtocolChangedException: another writer created it at the same time.
            InvalidSchemaError, InvalidPropertyError, UnknownColumnError: an argument is invalid.
        """
        clock = clock or SystemClock()
        configuration = properties or {}
        if catalog is None:
            store = open_store(uri, storage_options)
        else:
            managed, storage_options = stage_store(catalog, uri, storage_options or {}, clock)
            store, configuration = managed, build_properties(managed.table, configuration)
        if list_log_files(store):
            msg = f"There is already a Delta table at {store.root}."
            raise TableExistsError(msg, "Open it, or choose another place.")
        actions = first_actions(
            schema, partition_columns, clustering_columns, configuration, now_ms=clock.now_ms()
        )
        handle = cls(store, clock=clock, storage_options=storage_options)
        txn = OptimisticTransaction(handle, None, clock=clock)
        txn.stage(*actions)
        parameters = {
            **layout_parameters(actions, clustering_columns),
            "properties": dict(configuration),
        }
        txn.commit("CREATE TABLE", parameters)
        return handle

    @property
    def uri(self) -> str:
        """The table's place, in one spelling."""
        return self.store.root

    @property
    def allowed_roots(self) -> tuple[str, ...]:
        """Locations outside the table its log may refer to."""
        return self._allowed_roots

    def version(self) -> int:
        """Return the latest version."""
        return self.snapshot().version

    def snapshot(
        self, version: int | None = None, timestamp: datetime | int | str | None = None
    ) -> Snapshot:
        """Load the table at its latest version, at another, or as of a time.

        Args:
            version: a version available in the log.
            timestamp: an aware datetime, ISO 8601 text, or ms since the epoch. Text and datetimes
                without a zone are UTC.

        Raises:
            VersionNotFoundError: the log no longer has this version.
            TimestampOutOfRangeError: the time is outside the log's range.
        """
        if version is not None and timestamp is not None:
            msg = "A snapshot cannot be selected by both a version and a timestamp."
            raise RequestError(msg, "Pass only one of them.", field="timestamp")
        if version is not None and type(version) is not int:
            msg = f"{version!r} is not a version."
            raise RequestError(msg, "Use a whole number.", field="version")
        if timestamp is not None:
            version = version_at(self.store, self._latest().metadata, timestamp_to_ms(timestamp))
        if version is None:
            return self._latest()
        newest = self._newest
        if newest is not None and newest.version == version and newest.is_in_place():
            return newest
        return load_snapshot(self.store, version, self._allowed_roots)

    def start_transaction(
        self,
        *,
        txn_id: str | None = None,
        observer: TransactionObserver | None = None,
        limits: CommitLimits | None = None,
        version: int | None = None,
    ) -> OptimisticTransaction:
        """Start a transaction on the latest version, or on another one the caller has read.

        Args:
            txn_id: the id its commit carries; a transaction recognizes an earlier commit by it.
            observer: is notified of each phase.
            limits: the number of commit attempts, and the time to compare rows; by default the
                table's.
            version: the version it reads; later commits are checked against its reads.

        Raises:
            VersionNotFoundError: the log no longer has this version.
        """
        return self.transaction_type(
            self,
            self._latest() if version is None else self.snapshot(version),
            txn_id=txn_id,
            observer=observer,
            clock=self.clock,
            limits=limits or self.limits,
        )

    def history(self, limit: int | None = None) -> list[CommitInfo]:
        """Return the commits still in the log, latest first."""
        return list(self.iter_history(limit))

    def iter_history(self, limit: int | None = None) -> Iterator[CommitInfo]:
        """Yield the commits still in the log, latest first, reading them on demand."""
        newest_version = None if self._newest is None else self._newest.version
        return iter_history(self.store, limit, known_version=newest_version)

    def _latest(self) -> Snapshot:
        self._newest = (
            load_snapshot(self.store, allowed_roots=self._allowed_roots)
            if self._newest is None
            else self._newest.update()
        )
        return self._newest
