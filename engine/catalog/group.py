"""Commits of several managed tables that their catalog ratifies together, or not at all.

The members commit one inside the other. Each checks its table's winning commits, rebases, stages
its commit, and proposes it by committing the next member; the last one has the catalog ratify all.

1. A refusal because of one table returns to that member. It checks and rebases again, then the
   members after it commit again.
2. An unknown outcome is settled by any one table: the group is in the log of all, or of none.
3. No member's commit is ever proposed alone.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from engine.catalog.catalog import Catalog, CatalogTableName, GroupCommit
from engine.catalog.managed_store import ManagedStore
from engine.errors import (
    CommitOutcomeUnknownError,
    EngineError,
    GroupRefusedError,
    MaxCommitRetriesError,
    RequestError,
    StorageOutcomeUnknownError,
    VersionTakenError,
)

CommitMember = Callable[[], bool]
"""Commits one member; returns whether its commit was in the log before."""
ReadVersions = Callable[[], Mapping[CatalogTableName, int]]
"""Checks the tables that were only read; returns the versions up to which they were checked."""
_MOST_CHECKS = 100


class CommitGroup:
    """One commit of several tables of a catalog.

    `join` prepares the store of each member; `commit` runs their commits.
    """

    def __init__(self) -> None:
        self._stores: list[ManagedStore] = []
        self._proposals: list[GroupCommit] = []
        self._commits: Sequence[CommitMember] = ()
        self._done: set[int] = set()
        self._unchanged: ReadVersions = dict
        self._unrefused: list[tuple[GroupCommit, ...]] = []
        self._is_ratified = False

    @property
    def is_in_doubt(self) -> bool:
        """Whether a proposal of the group was not refused: it is ratified, or may be, even late."""
        return bool(self._unrefused)

    def join(self, store: ManagedStore) -> ManagedStore:
        """Return the store through which the next member commits."""
        self._stores.append(store.join(_MemberPlace(self, len(self._stores))))
        return self._stores[-1]

    def commit(self, commits: Sequence[CommitMember], unchanged: ReadVersions) -> None:
        """Commit the members, in the order in which they joined.

        Raises:
            ConflictError: a winning commit made one unserializable. Nothing was written.
            CommitOutcomeUnknownError: the catalog did not tell whether it ratified them.
        """
        self._commits, self._unchanged = commits, unchanged
        try:
            for place in range(len(commits)):
                self._commit(place)
                self._is_ratified = True
        except CommitOutcomeUnknownError:
            raise
        except EngineError as error:
            if not all(map(self._is_dead, self._unrefused)):
                raise _outcome_unknown_error(self._stores) from error
            raise

    def ratify(self, place: int, catalog: Catalog, commit: GroupCommit) -> None:
        """Have a member's commit ratified, after the members behind it have committed theirs."""
        if self._is_ratified:  # its commit must be in the log, and was not found there
            raise _outcome_unknown_error(self._stores)
        self._proposals[place:] = [commit]
        try:
            if place + 1 == len(self._commits):
                self._ratify_all(catalog)
            elif self._commit(place + 1):
                what = "The group was ratified before."  # perhaps with another staged commit
                raise StorageOutcomeUnknownError(what)
        except GroupRefusedError as refused:
            if refused.table_id == commit.table.table_id:
                raise refused.cause from refused
            raise

    def _commit(self, place: int) -> bool:
        """Commit a member unless that is done; return whether its commit was in the log before."""
        if place in self._done:
            return True
        was_there = self._commits[place]()
        self._done.add(place)
        return was_there

    def _ratify_all(self, catalog: Catalog) -> None:
        """Have the catalog ratify the proposals, with the tables that were only read unchanged."""
        proposals = tuple(self._proposals)
        proposed = {commit.table.table_id for commit in proposals}
        for _ in range(_MOST_CHECKS):
            unchanged = self._unchanged()
            self._unrefused.append(proposals)
            try:
                catalog.ratify_group(proposals, unchanged)
                return
            except StorageOutcomeUnknownError:
                raise
            except GroupRefusedError as refused:
                self._unrefused.pop()
                if refused.table_id in proposed:
                    self._check_refusal(refused)
                    raise
            except EngineError:
                self._unrefused.pop()
                raise
        what = "The tables that the transaction reads changed too often. Nothing was written."
        raise MaxCommitRetriesError(what, "Run it when fewer writers are active.")

    def _check_refusal(self, refused: GroupRefusedError) -> None:
        """Check that a taken version is not the group's own, ratified by an earlier request.

        Raises:
            StorageOutcomeUnknownError: it may be.
        """
        if isinstance(refused.cause, VersionTakenError) and not self._is_dead(self._proposals):
            self._unrefused.append(tuple(self._proposals))
            raise StorageOutcomeUnknownError(refused.cause.what) from refused

    def _is_dead(self, proposals: Sequence[GroupCommit]) -> bool:
        """Return whether proposals can never be ratified: another commit has a version of them."""
        for store, proposed in zip(self._stores, proposals, strict=True):
            with suppress(EngineError):
                if store.is_taken(proposed.proposal.commit):
                    return True
        return False


@dataclass(frozen=True, slots=True)
class _MemberPlace:
    """A member's place in its group, as its store knows it."""

    group: CommitGroup
    place: int

    @property
    def is_in_doubt(self) -> bool:
        return self.group.is_in_doubt

    def ratify(self, catalog: Catalog, commit: GroupCommit) -> None:
        self.group.ratify(self.place, catalog, commit)


def _outcome_unknown_error(stores: Sequence[ManagedStore]) -> CommitOutcomeUnknownError:
    tables = " and ".join(str(store.table.name) for store in stores)
    what = f"It is not known whether the transaction on {tables} was committed."
    return CommitOutcomeUnknownError(what, "Look for it in their histories before retrying.")


def read_versions(stores: Sequence[ManagedStore]) -> tuple[int, ...]:
    """Return the latest versions of managed tables at one moment.

    Raises:
        RequestError: they are not of one catalog, or it cannot answer for several tables.
        CatalogTableMissingError: one was dropped.
    """
    if len({store.catalog for store in stores}) > 1:
        what = "Tables of several catalogs have no versions at one moment."
        raise RequestError(what, "Name tables of one catalog.", field="tables")
    return stores[0].read_versions(stores[1:]) if stores else ()
