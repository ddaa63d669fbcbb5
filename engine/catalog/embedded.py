"""A catalog in an SQLite file, for programs and processes of one machine that share tables.

Ratification is one transaction that compares and sets the table's latest version.
"""

import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from engine.catalog.catalog import (
    Catalog,
    CatalogTable,
    CatalogTableName,
    GroupCommit,
    ProposedCommit,
    RatifiedCommit,
    RatifiedCommits,
    check_staged_commit,
    check_unchanged,
    refuse_group,
)
from engine.errors import (
    CatalogError,
    CatalogTableMissingError,
    InvalidCommitError,
    StorageOutcomeUnknownError,
    TableExistsError,
    TableNotFoundError,
    UnpublishedLimitError,
    VersionTakenError,
)
from engine.log.management import MAINTENANCE
from engine.log.paths import commit_path
from engine.storage.uri import normalize_uri, open_store

_SCHEMA = """
CREATE TABLE IF NOT EXISTS managed (
    id TEXT PRIMARY KEY, name TEXT UNIQUE, staged_name TEXT NOT NULL, location TEXT NOT NULL,
    latest INTEGER NOT NULL DEFAULT 0, published INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS ratified (
    id TEXT NOT NULL REFERENCES managed ON DELETE CASCADE, version INTEGER NOT NULL,
    file_name TEXT NOT NULL, size_bytes INTEGER NOT NULL, modified_ms INTEGER NOT NULL,
    timestamp_ms INTEGER NOT NULL, PRIMARY KEY (id, version)
);
"""
_NAMED_AFTER = 20
"""Published commits that are still named: some clients list a log with rejected files in it."""
_BUSY_S = 30.0


class EmbeddedCatalog(Catalog):
    """A catalog in a file; threads and processes may share it.

    `root` is the location below which it puts new tables. `unpublished` is the number of commits
    that may wait to be published.
    """

    def __init__(
        self,
        path: str | Path,
        root: str,
        *,
        permitted: frozenset[str] = MAINTENANCE,
        unpublished: int = 50,
    ) -> None:
        """Open the catalog of a file, and create the file if it is missing.

        Raises:
            CatalogError: the file cannot be opened.
        """
        self._path, self._root = Path(path).absolute(), normalize_uri(root)
        self._permitted, self._unpublished = permitted, unpublished
        with self._connect() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(_SCHEMA)

    @property
    def name(self) -> str:
        """The catalog's name."""
        return f"the catalog {self._path.name}"

    @property
    def commits_groups(self) -> bool:
        """Whether it ratifies groups: it does."""
        return True

    def resolve_table(self, name: CatalogTableName) -> CatalogTable:
        """Find a table."""
        with self._transaction(writes=False) as connection:
            return self._find(connection, name)

    def list_commits(self, table: CatalogTable) -> RatifiedCommits:
        """Return the latest version, the unpublished commits and the last published ones."""
        with self._transaction(writes=False) as connection:
            latest, _, _ = self._state(connection, table)
            rows = connection.execute(
                "SELECT version, file_name, size_bytes, modified_ms, timestamp_ms FROM ratified"
                " WHERE id = ? ORDER BY version",
                (table.table_id,),
            ).fetchall()
        return RatifiedCommits(latest, tuple(RatifiedCommit(*row) for row in rows))

    def ratify(
        self, table: CatalogTable, proposal: ProposedCommit, published_version: int | None
    ) -> None:
        """Ratify a staged commit as the version after the latest, after reading its file."""
        self._check_staged(table, proposal.commit)
        with self._transaction() as connection:
            self._claim(connection, table, proposal.commit, published_version)

    def ratify_group(
        self, commits: Sequence[GroupCommit], unchanged: Mapping[CatalogTableName, int]
    ) -> None:
        """Ratify a commit of each of several tables, or none of them."""
        for one in commits:
            with refuse_group(one.table.table_id):
                self._check_staged(one.table, one.proposal.commit)
        with self._transaction() as connection:
            for name, version in unchanged.items():
                table = self._find(connection, name)
                with refuse_group(table.table_id):
                    check_unchanged(table, self._state(connection, table)[0], version)
            for one in commits:
                with refuse_group(one.table.table_id):
                    self._claim(connection, one.table, one.proposal.commit, one.published_version)

    def report_published(self, table: CatalogTable, version: int) -> None:
        """Note that all versions up to one are published."""
        with self._transaction() as connection:
            latest, _, _ = self._state(connection, table)
            if version > latest:
                what = f"Version {version} of {table.name} is later than the latest, {latest}."
                raise InvalidCommitError(what, "Publish ratified commits only.")
            self._publish(connection, table, version)

    def read_versions(self, tables: Sequence[CatalogTable]) -> tuple[int, ...]:
        """Return the latest versions of several tables at one moment."""
        with self._transaction(writes=False) as connection:
            return tuple(self._state(connection, table)[0] for table in tables)

    def stage_table(self, name: CatalogTableName) -> CatalogTable:
        """Reserve an id and a location for a new managed table."""
        table_id = str(uuid.uuid4())
        location = f"{self._root}/{table_id}"
        with self._transaction() as connection:
            self._check_free(connection, name)
            connection.execute(
                "INSERT INTO managed (id, staged_name, location) VALUES (?, ?, ?)",
                (table_id, str(name), location),
            )
        return CatalogTable(name, table_id, location, permitted=self._permitted)

    def register_table(self, staged: CatalogTable, first: ProposedCommit) -> None:
        """Give a staged table its name, once its version 0 is in its log."""
        if open_store(staged.location, staged.storage_options).stat(commit_path(0)) is None:
            what = f"{staged.name} has no version {first.commit.version} in its log."
            raise InvalidCommitError(what, "Write it first.")
        with self._transaction() as connection:
            self._check_free(connection, staged.name)
            named = connection.execute(
                "UPDATE managed SET name = staged_name WHERE id = ? AND name IS NULL",
                (staged.table_id,),
            ).rowcount
            if not named:
                raise self._no_table_error(staged)

    def drop_table(self, name: CatalogTableName) -> None:
        """Remove a table from the catalog; its files stay."""
        with self._transaction() as connection:
            dropped = connection.execute(
                "DELETE FROM managed WHERE name = ?", (str(name),)
            ).rowcount
        if not dropped:
            raise self._no_table(name)

    def _find(self, connection: sqlite3.Connection, name: CatalogTableName) -> CatalogTable:
        row = connection.execute(
            "SELECT id, location FROM managed WHERE name = ?", (str(name),)
        ).fetchone()
        if row is None:
            raise self._no_table(name)
        return CatalogTable(name, row[0], row[1], permitted=self._permitted)

    def _check_staged(self, table: CatalogTable, commit: RatifiedCommit) -> None:
        """Read a proposed commit's file."""
        with self._transaction(writes=False) as connection:
            location = self._state(connection, table)[2]
        check_staged_commit(open_store(location, table.storage_options), commit)

    def _claim(
        self,
        connection: sqlite3.Connection,
        table: CatalogTable,
        commit: RatifiedCommit,
        published_version: int | None,
    ) -> None:
        """Compare and set the latest version, and write its row; or raise why not."""
        latest, published, _ = self._state(connection, table)
        if published_version is not None:
            published = self._publish(connection, table, min(published_version, latest))
        if commit.version <= latest:
            self._check_replay(connection, table, commit)
            return
        if commit.version > latest + 1:
            what = f"Version {commit.version} of {table.name} cannot follow version {latest}."
            raise InvalidCommitError(what, f"Propose version {latest + 1}.")
        if latest - published >= self._unpublished:
            what = f"{latest - published} commits of {table.name} are not yet published."
            raise UnpublishedLimitError(what, "Publish them first.")
        connection.execute(
            "INSERT INTO ratified VALUES (?, ?, ?, ?, ?, ?)",
            (
                table.table_id,
                commit.version,
                commit.file_name,
                commit.size_bytes,
                commit.modified_ms,
                commit.timestamp_ms,
            ),
        )
        connection.execute(
            "UPDATE managed SET latest = ? WHERE id = ?", (commit.version, table.table_id)
        )

    def _state(self, connection: sqlite3.Connection, table: CatalogTable) -> tuple[int, int, str]:
        """Return a named table's latest version, its last published one, and its location."""
        row = connection.execute(
            "SELECT latest, published, location FROM managed WHERE id = ? AND name IS NOT NULL",
            (table.table_id,),
        ).fetchone()
        if row is None:
            raise self._no_table_error(table)
        return row[0], row[1], row[2]

    def _publish(self, connection: sqlite3.Connection, table: CatalogTable, version: int) -> int:
        """Note a published version and forget older names; return the last published version."""
        connection.execute(
            "UPDATE managed SET published = max(published, ?) WHERE id = ?",
            (version, table.table_id),
        )
        _, published, _ = self._state(connection, table)
        connection.execute(
            "DELETE FROM ratified WHERE id = ? AND version <= ?",
            (table.table_id, published - _NAMED_AFTER),
        )
        return published

    def _check_replay(
        self, connection: sqlite3.Connection, table: CatalogTable, commit: RatifiedCommit
    ) -> None:
        """Accept a commit that was ratified before; refuse another one of its version."""
        row = connection.execute(
            "SELECT file_name FROM ratified WHERE id = ? AND version = ?",
            (table.table_id, commit.version),
        ).fetchone()
        if row is None or row[0] != commit.file_name:
            msg = f"{table.name} has a version {commit.version} already."
            raise VersionTakenError(msg)

    def _check_free(self, connection: sqlite3.Connection, name: CatalogTableName) -> None:
        if connection.execute("SELECT 1 FROM managed WHERE name = ?", (str(name),)).fetchone():
            msg = f"{self.name} has a table {name} already."
            raise TableExistsError(msg, "Open it, or choose another name.")

    def _no_table(self, name: CatalogTableName) -> TableNotFoundError:
        msg = f"{self.name} has no table {name}."
        return TableNotFoundError(msg, "Check the name, or create the table.")

    def _no_table_error(self, table: CatalogTable) -> CatalogTableMissingError:
        what = f"{self.name} does not have the table {table.name} with the id {table.table_id}."
        return CatalogTableMissingError(what)

    @contextmanager
    def _transaction(self, *, writes: bool = True) -> Iterator[sqlite3.Connection]:
        """Open a connection for one transaction, which sees one state. Writers take turns.

        Raises:
            CatalogError: the file failed. Nothing changed.
            StorageOutcomeUnknownError: it failed in COMMIT, whose frames may be in the WAL.
        """
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            yield connection
            if not writes:
                return
            try:
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                what = f"{self.name} failed in a commit: {error}."
                raise StorageOutcomeUnknownError(
                    what, "Find out whether the change was made before you try again."
                ) from error

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        """Open a connection; closing it rolls back what is not committed.

        Raises:
            CatalogError: the file failed. Nothing changed.
        """
        try:
            connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
            with closing(connection):
                connection.execute("PRAGMA foreign_keys=ON")
                yield connection
        except sqlite3.Error as error:
            what = f"{self.name} failed: {error}."
            raise CatalogError(what, "Check the file, its disk and its permissions.") from error
