"""The files of a managed table, with the commits that its catalog ratified in its log.

A `ManagedStore` promises:

1. a commit of the log is the one that the catalog names, read from its staged file if it has one;
2. no version after the catalog's latest is visible, published or not;
3. a version written by `put_if_absent` is staged, ratified and published, or another commit has it,
   or the outcome is unknown and the caller must read the log before it tries again;
4. a staged file is deleted only if it can never be ratified.
"""

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import pyarrow as pa

from engine.catalog.catalog import (
    Catalog,
    CatalogTable,
    CatalogTableName,
    GroupCommit,
    ProposedCommit,
    RatifiedCommit,
    publish_commit,
    read_ratified,
)
from engine.clock import Clock, SystemClock
from engine.errors import (
    CatalogError,
    CommitOutcomeUnknownError,
    EngineError,
    FileExistsAlreadyError,
    FileMissingError,
    GroupRefusedError,
    LogGapError,
    RequestError,
    StorageError,
    StorageOutcomeUnknownError,
    UnpublishedLimitError,
    VersionTakenError,
)
from engine.log.management import CATALOG_MANAGED
from engine.log.paths import LOG_DIRECTORY, LogFileKind, commit_path, is_of_version, parse_name
from engine.storage.base import FileStatus, Store
from engine.storage.uri import open_store

Content = TypeVar("Content")

_log = logging.getLogger(__name__)
_PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_MOST_HELD = 5
"""Unpublished commits that a catalog holds before it is told that they are published."""


class CommitsTogether(Protocol):
    """A group of tables whose commits are ratified together."""

    @property
    def is_in_doubt(self) -> bool:
        """Whether a proposal of the group was not refused: it is ratified, or may be, even late."""
        ...

    def ratify(self, catalog: Catalog, commit: GroupCommit) -> None:
        """Have a commit ratified with those of the other tables, as `Catalog.ratify`.

        Raises:
            EngineError: also any error of another table's commit. Nothing was ratified.
        """
        ...


@dataclass(frozen=True, slots=True)
class _StagedCommit:
    """A commit whose staged file was written by this store, with its bytes."""

    proposal: ProposedCommit
    data: bytes

    @property
    def facts(self) -> RatifiedCommit:
        return self.proposal.commit


class ManagedStore:
    """A table's store whose log follows a catalog. Threads may share it.

    `is_staged` tells that the catalog does not have the table yet: version 0 then goes into the log
    directly, and gives the table its name in the catalog.
    """

    def __init__(
        self,
        files: Store,
        catalog: Catalog,
        table: CatalogTable,
        *,
        clock: Clock | None = None,
        is_staged: bool = False,
        group: "CommitsTogether | None" = None,
    ) -> None:
        """Follow a catalog over the plain store of a table's location."""
        self.files, self.table = files, table
        self._group = group
        self._catalog, self._clock, self._is_staged = catalog, clock or SystemClock(), is_staged
        self._lock = threading.RLock()
        self._order, self._accepted = itertools.count(), -1
        self._latest = 0 if is_staged else -1
        self._ratified: Mapping[int, RatifiedCommit] = {}
        self._published = -1
        self._doubtful: list[_StagedCommit] = []

    @property
    def root(self) -> str:
        """The table's place."""
        return self.files.root

    @property
    def management(self) -> "ManagedStore":
        """This store, as `engine.log.management` knows it."""
        return self

    @property
    def catalog(self) -> str:
        """The catalog's name."""
        return self._catalog.name

    @property
    def commits_groups(self) -> bool:
        """Whether the catalog ratifies commits of several tables together."""
        return self._catalog.commits_groups

    def read_versions(self, others: "Sequence[ManagedStore]") -> tuple[int, ...]:
        """Return the latest versions of this table and others at one moment."""
        return self._catalog.read_versions([self.table, *(other.table for other in others)])

    def join(self, group: "CommitsTogether") -> "ManagedStore":
        """Return a store of the same table whose commits are ratified with those of others."""
        return ManagedStore(self.files, self._catalog, self.table, clock=self._clock, group=group)

    def is_taken(self, commit: RatifiedCommit) -> bool:
        """Ask whether another commit has the version of a proposed one.

        Raises:
            CatalogError: the catalog did not answer.
        """
        latest, named = self._ask()
        if commit.version > latest:
            return False
        winner = named.get(commit.version)
        return winner is not None and winner.file_name != commit.file_name

    def permits(self, operation: str) -> bool:
        """Return whether the catalog permits a maintenance operation."""
        return operation in self.table.permitted

    def read(self, path: str, start: int | None = None, length: int | None = None) -> bytes:
        """Read a file; a ratified commit from its staged file, whole if it has its size."""

        def read_staged(commit: RatifiedCommit) -> bytes:
            if start is None and length is None:
                return read_ratified(self.files, commit)
            return self.files.read(commit.path, start, length)

        return self._find(path, lambda place: self.files.read(place, start, length), read_staged)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file; a ratified commit by its staged file."""
        return self._find(path, self.files.open_input, lambda one: self.files.open_input(one.path))

    def stat(self, path: str) -> FileStatus | None:
        """Return the status of a file; of a ratified commit as the catalog has it."""
        version = _commit_version(path)
        if version is None:
            return self.files.stat(path)
        latest, ratified = self._look_up(version)
        commit = ratified.get(version)
        if commit is not None:
            return _status_of(commit)
        return self.files.stat(path) if version <= latest else None

    def list_from(self, directory: str, start: str) -> Iterator[FileStatus]:
        """Yield the files of a directory; in the log, only those of the catalog's versions."""
        if directory != LOG_DIRECTORY:
            yield from self.files.list_from(directory, start)
            return
        latest, ratified = self._ask()  # before the listing: every commit is in one or the other
        listed = {file.name: file for file in self.files.list_from(directory, start)}
        self._note_published(listed)
        visible = {name: file for name, file in listed.items() if is_of_version(name, latest)}
        named = map(_status_of, ratified.values())
        visible |= {file.name: file for file in named if file.name >= start}
        self._check_latest(visible, latest, start)
        yield from (visible[name] for name in sorted(visible))

    def list_all(self, prefix: str = "") -> Iterator[FileStatus]:
        """Yield every file below a directory as it is stored."""
        return self.files.list_all(prefix)

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Write a file unless it exists; stage, ratify and publish a commit.

        Raises:
            FileExistsAlreadyError: another commit has this version.
            StorageOutcomeUnknownError: it may or may not have been ratified.
            CatalogError: the catalog refused it. Nothing was committed.
            CommitOutcomeUnknownError: a new table may or may not have its name in the catalog.
        """
        version = _commit_version(path)
        if version is None:
            self.files.put_if_absent(path, data)
            return
        if self._is_staged:
            self.files.put_if_absent(path, data)
            self._register(ProposedCommit.from_bytes(version, data))
            return
        self._ratify(self._stage(version, data))
        try:
            self.publish(version)
        except EngineError as error:
            _log.warning("Version %s of %s is not yet published: %s", version, self.root, error)

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file, replacing any existing one; a commit is never replaced."""
        _refuse_commit(path)
        self.files.put(path, data)

    def put_stream(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a large file in pieces; a commit is never replaced."""
        _refuse_commit(path)
        self.files.put_stream(path, pieces)

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        self.files.delete(path)

    def make_durable(self, paths: Iterable[str]) -> None:
        """Sync files written elsewhere to disk."""
        self.files.make_durable(paths)

    def publish(self, version: int) -> bool:
        """Publish the ratified commits in order; return whether a version is published.

        Raises:
            StorageError: a commit could not be copied; earlier ones are published.
            MalformedLogError: the log has another commit of a ratified version.
        """
        if version > self._latest:
            self._ask()
        with self._lock:
            first = min(self._ratified, default=self._latest + 1)
            self._published = max(self._published, first - 1)
            for number in range(self._published + 1, self._latest + 1):
                self._copy(self._ratified[number])
                self._published = number
            published, held = self._published, self._latest - first + 1
        if held >= _MOST_HELD:
            self._report(published)
        return version <= published

    def _register(self, first: ProposedCommit) -> None:
        """Give a staged table its name, now that its version 0 is in the log."""
        doubt: EngineError | None = None
        for pause_s in _PAUSES_S:
            try:
                self._catalog.register_table(self.table, first)
            except StorageOutcomeUnknownError as error:
                doubt = error
                self._clock.pause(pause_s)
            except EngineError:
                if doubt is None or not self._has_name():
                    raise
                break
            else:
                break
        else:
            what = f"{self.catalog} did not tell whether it has the new table {self.table.name}."
            raise CommitOutcomeUnknownError(
                what, "Look for it before creating it again."
            ) from doubt
        self._is_staged = False

    def _has_name(self) -> bool:
        """Return whether the staged table has its name now."""
        try:
            return self._catalog.resolve_table(self.table.name).table_id == self.table.table_id
        except EngineError:
            return False

    def _copy(self, commit: RatifiedCommit) -> None:
        """Copy a ratified commit into the log, unless it is there."""
        path = commit_path(commit.version)
        there = self.files.stat(path)
        if there is not None and there.size_bytes == commit.size_bytes:
            return
        publish_commit(self.files, commit, self.catalog)

    def _report(self, version: int) -> None:
        try:
            self._catalog.report_published(self.table, version)
        except StorageError as error:
            _log.warning(
                "%s was not told of %s, version %s: %s", self.catalog, self.root, version, error
            )

    def _ask(self) -> tuple[int, Mapping[int, RatifiedCommit]]:
        """Ask the catalog; return the latest version and the commits it names, by version.

        Of answers to several threads, the answer to the latest question counts.
        """
        if self._is_staged:
            return self._latest, self._ratified
        with self._lock:
            turn = next(self._order)
        answer = self._catalog.list_commits(self.table).check()
        with self._lock:
            if turn > self._accepted:
                self._accepted, self._latest = turn, answer.latest_version
                self._ratified = {commit.version: commit for commit in answer.commits}
            answered = self._latest, self._ratified
        self._delete_rejected()
        return answered

    def _look_up(self, version: int) -> tuple[int, Mapping[int, RatifiedCommit]]:
        """Return the latest version and the named commits, asked for unless a version is known."""
        with self._lock:
            if version <= self._latest:
                return self._latest, self._ratified
        return self._ask()

    def _find(
        self,
        path: str,
        read: Callable[[str], Content],
        read_staged: Callable[[RatifiedCommit], Content],
    ) -> Content:
        """Read a file; a commit from where the catalog says it is."""
        version = _commit_version(path)
        if version is None:
            return read(path)
        latest, ratified = self._look_up(version)
        if version > latest:
            msg = f"{self.catalog} has no version {version} of {self.root}."
            raise FileMissingError(msg)
        if version in ratified:
            with suppress(FileMissingError):  # deleted after it was published
                return read_staged(ratified[version])
        return read(path)

    def _check_latest(self, visible: Iterable[str], latest_version: int, start: str) -> None:
        """Check that a listing has the catalog's latest version; an earlier one would be stale."""
        name = commit_path(latest_version).rpartition("/")[2]
        if not self._is_staged and name >= start and name not in visible:
            what = (
                f"{self.catalog} has version {latest_version} of {self.root} as the latest, but "
                "its commit is neither staged nor published."
            )
            raise LogGapError(what, "Ask the catalog's administrator to look at it.")

    def _note_published(self, listed: Iterable[str]) -> None:
        """Note how far the commits that the catalog names are in the log."""
        names = [parse_name(name) for name in listed]
        there = {name.version for name in names if name and name.kind is LogFileKind.COMMIT}
        with self._lock:
            published = max(self._published, min(self._ratified, default=self._latest + 1) - 1)
            while published + 1 in there and published < self._latest:
                published += 1
            self._published = published

    def _stage(self, version: int, data: bytes) -> _StagedCommit:
        """Write a staged commit under a name of its own."""
        proposal = ProposedCommit.from_bytes(version, data)
        while True:
            try:
                self.files.put_if_absent(proposal.commit.path, data)
                break
            except FileExistsAlreadyError:
                if self.files.read(proposal.commit.path) == data:
                    break  # the store's client repeated the write after a lost response
                proposal = proposal.rename()
            except StorageOutcomeUnknownError as error:  # it is not proposed, so it is no commit
                what = f"{proposal.commit.path} could not be staged. Nothing was committed."
                raise StorageError(what, "Run it again.") from error
        status = self.files.stat(proposal.commit.path)
        modified_ms = self._clock.now_ms() if status is None else status.modified_ms
        commit = replace(proposal.commit, modified_ms=modified_ms)
        return _StagedCommit(replace(proposal, commit=commit), data)

    def _ratify(self, staged: _StagedCommit) -> None:
        """Have a staged commit ratified.

        A refusal because of its version, and an unknown outcome, are settled by asking which commit
        has the version. Until it has one, the same file is proposed again: a catalog ratifies it
        once. After an unknown outcome no later refusal is final.
        """
        doubt: StorageError | None = None
        for pause_s in _PAUSES_S:
            try:
                self._propose(staged.proposal)
                self._note_ratified(staged.facts)
                return
            except UnpublishedLimitError as error:
                doubt = doubt or error
                self._make_room()
            except (VersionTakenError, StorageOutcomeUnknownError) as error:
                doubt = error
                if self._settle(staged, error):
                    return
            except CatalogError as error:
                raise self._give_up(staged, doubt, error) from error
            except (EngineError, GroupRefusedError):  # another table of the group failed
                self._abandon(staged)
                raise
            self._clock.pause(pause_s)
        raise self._give_up(staged, doubt, doubt)

    def _give_up(
        self, staged: _StagedCommit, doubt: StorageError | None, error: StorageError | None
    ) -> StorageError:
        """Return the error of a commit that was refused, or whose outcome is unknown."""
        if isinstance(doubt, VersionTakenError | StorageOutcomeUnknownError) or error is None:
            return self._leave_in_doubt(staged)
        self._abandon(staged)
        return error

    def _settle(self, staged: _StagedCommit, error: StorageError) -> bool:
        """Return whether a staged commit was ratified, False if its version is still free.

        Raises:
            FileExistsAlreadyError: another commit has its version.
            StorageOutcomeUnknownError: the catalog did not say.
        """
        try:
            latest, _ = self._ask()
            is_ratified = latest >= staged.facts.version and self._is_ratified(staged)
        except EngineError as unknown:
            raise self._leave_in_doubt(staged) from unknown
        if latest >= staged.facts.version and not is_ratified:
            self._discard(staged)
            msg = f"{self.catalog} ratified another version {staged.facts.version} of {self.root}."
            raise FileExistsAlreadyError(msg) from error
        return is_ratified

    def _is_ratified(self, staged: _StagedCommit) -> bool:
        """Return whether a version that the catalog has is a staged commit.

        Once the catalog names a version no more, the log has it.
        """
        version = staged.facts.version
        named = self._ratified.get(version)
        if named is not None:
            return named.file_name == staged.facts.file_name
        return self.files.read(commit_path(version)) == staged.data

    def _leave_in_doubt(self, staged: _StagedCommit) -> StorageOutcomeUnknownError:
        """Keep a staged commit until the catalog reports who has its version; return the error."""
        with self._lock:
            self._doubtful.append(staged)
        what = (
            f"{self.catalog} did not tell whether version {staged.facts.version} of {self.root} "
            "was ratified."
        )
        return StorageOutcomeUnknownError(what, "Look for it in the history before retrying.")

    def _delete_rejected(self) -> None:
        """Delete the doubtful staged commits whose version another commit has."""
        with self._lock:
            settled = [staged for staged in self._doubtful if staged.facts.version <= self._latest]
            self._doubtful = [staged for staged in self._doubtful if staged not in settled]
        for staged in settled:
            with suppress(EngineError):
                if not self._is_ratified(staged):
                    self._discard(staged)

    def _propose(self, proposal: ProposedCommit) -> None:
        published = self._last_published()
        if self._group is None:
            self._catalog.ratify(self.table, proposal, published)
        else:
            self._group.ratify(self._catalog, GroupCommit(self.table, proposal, published))

    def _abandon(self, staged: _StagedCommit) -> None:
        """Delete the staged file of a refused commit, unless its group is or may be ratified."""
        if self._group is None or not self._group.is_in_doubt:
            self._discard(staged)
            return
        with self._lock:
            self._doubtful.append(staged)

    def _discard(self, staged: _StagedCommit) -> None:
        """Delete the staged file of a commit that can never be ratified."""
        try:
            self.files.delete(staged.facts.path)
        except StorageError as error:
            _log.warning("%s of %s was not deleted: %s", staged.facts.path, self.root, error)

    def _note_ratified(self, commit: RatifiedCommit) -> None:
        with self._lock:
            if self._latest == commit.version - 1:
                self._accepted, self._latest = next(self._order), commit.version
                self._ratified = {**self._ratified, commit.version: commit}

    def _make_room(self) -> None:
        """Publish the ratified commits and report them, so that the catalog ratifies more."""
        try:
            latest, _ = self._ask()
            if self.publish(latest):
                self._report(latest)
        except EngineError as error:
            _log.warning("Commits of %s could not be published: %s", self.root, error)

    def _last_published(self) -> int | None:
        with self._lock:
            return self._published if self._published >= 0 else None


def open_catalog_store(
    catalog: Catalog, name: str, storage_options: Mapping[str, str], clock: Clock | None
) -> tuple[Store, dict[str, str]]:
    """Open the store of a catalog's table, with its options; a plain one by its location.

    Raises:
        RequestError: the name has not three parts.
        TableNotFoundError: the catalog has no such table.
        CatalogError: the catalog failed or refused.
    """
    table = catalog.resolve_table(CatalogTableName.parse(name))
    options = {**table.storage_options, **storage_options}
    files = open_store(table.location, options)
    if not table.is_managed:
        return files, options
    return ManagedStore(files, catalog, table, clock=clock), options


def stage_store(
    catalog: Catalog, name: str, storage_options: Mapping[str, str], clock: Clock | None
) -> tuple[ManagedStore, dict[str, str]]:
    """Reserve the place of a new managed table. Its version 0 gives it its name.

    Raises:
        TableExistsError: the catalog has a table of this name.
        RequestError, CatalogError: as in `open_catalog_store`.
    """
    table = catalog.stage_table(CatalogTableName.parse(name))
    options = {**table.storage_options, **storage_options}
    files = open_store(table.location, options)
    return ManagedStore(files, catalog, table, clock=clock, is_staged=True), options


def build_properties(table: CatalogTable, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a new managed table: the given ones, and those that it must have."""
    features = {f"delta.feature.{name}": "supported" for name in table.required_features}
    return {
        **properties,
        **features,
        f"delta.feature.{CATALOG_MANAGED}": "supported",
        **table.required_properties,
        "delta.enableInCommitTimestamps": "true",
    }


def _commit_version(path: str) -> int | None:
    """Return the version of a path in the log; None if it is no commit."""
    directory, _, name = path.rpartition("/")
    parsed = parse_name(name) if directory == LOG_DIRECTORY else None
    return parsed.version if parsed and parsed.kind is LogFileKind.COMMIT else None


def _status_of(commit: RatifiedCommit) -> FileStatus:
    return FileStatus(commit_path(commit.version), commit.size_bytes, commit.modified_ms)


def _refuse_commit(path: str) -> None:
    if _commit_version(path) is not None:
        msg = f"{path} of a catalog-managed table cannot be replaced."
        raise RequestError(msg, "Commit through the table.", field="path")
