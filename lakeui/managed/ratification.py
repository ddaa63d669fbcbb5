"""Ratification: a staged commit becomes the next version of a managed table, at most once.

It promises:

1. a version is ratified once, and only after the one before it;
2. nothing is ratified whose staged file was not read whole before;
3. a proposal that is sent again gets the same answer, also after the version was published;
4. every refusal of a version that is taken is on record;
5. the commits of a group are ratified together, or none of them is.

The latest version is compared and set in one UPDATE of the table's row. It is the lock: a second
transaction waits for it, then finds another version and changes nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from engine.actions.codec import Action, encode
from engine.actions.table import Metadata, Protocol
from engine.catalog.catalog import (
    ProposedCommit,
    RatifiedCommit,
    RatifiedCommits,
    check_provenance,
    check_staged_commit,
    read_actions,
    refuse_group,
)
from engine.errors import (
    CatalogTableMissingError,
    EngineError,
    FileMissingError,
    GroupRefusedError,
    InvalidCommitError,
    UnpublishedLimitError,
    UnsupportedFeatureError,
    VersionTakenError,
)
from engine.log.management import CATALOG_MANAGED, UNITY_TABLE_ID
from engine.log.paths import commit_path
from engine.protocol.features import check_writable, has_feature
from engine.protocol.properties import TableProperties
from engine.schema.types import parse_schema
from engine.storage.base import Store
from lakeui.managed.models import CommitAttempt, ManagedTable, RatifiedVersion, source_fields

MAX_NAMED = 1000
"""Commits in one answer. Published ones are named too: some clients list refused files."""


@dataclass(frozen=True, slots=True)
class CommitOrigin:
    """Who proposes a commit: a person, by which token and client."""

    user_id: int | None = None
    token_name: str = ""
    client: str = ""


@dataclass(frozen=True, slots=True)
class GroupProposal:
    """One table's checked proposal in a group; the parts are those of `ratify`."""

    table: ManagedTable
    proposal: ProposedCommit
    published_version: int | None = None

    @property
    def table_id(self) -> str:
        """The table's id in the catalog."""
        return str(self.table.table_id)


def check_proposal(
    table: ManagedTable, commit: RatifiedCommit, origin: CommitOrigin, store: Store
) -> ProposedCommit | None:
    """Read the staged file of a proposal; return None if it is ratified already.

    Raises:
        InvalidCommitError: the name, the file or its actions are not those of a commit.
        VersionTakenError: it was refused before, so its file may be gone.
        CatalogTableMissingError: the table was dropped.
        StorageError: the file could not be read.
    """
    commit.check()
    if not begin_table(table, store):
        what = f"Version 0 of {table} is not in its log."
        raise InvalidCommitError(what, "Write it first.")
    earlier = table.ratified.filter(version=commit.version).first()
    if earlier is not None and earlier.is_commit(commit, origin.user_id):
        return None
    refused = table.attempts.filter(file_name=commit.file_name, version=commit.version)
    if refused.update(tries=F("tries") + 1):
        raise _version_taken(table, commit.version)
    proposal = check_staged_commit(store, commit)
    if proposal.metadata is not None:
        _check_metadata(table, proposal.metadata)
    return proposal


def ratify(
    table: ManagedTable,
    proposal: ProposedCommit,
    origin: CommitOrigin,
    published_version: int | None = None,
    *,
    keeps_attempts: bool = True,
) -> None:
    """Ratify a checked proposal as the version after the latest.

    Args:
        table: the table.
        proposal: the answer of `check_proposal`.
        origin: who proposes it.
        published_version: the version up to which all are known to be published, checked before.
        keeps_attempts: whether a refusal goes on record.

    Raises:
        VersionTakenError: another commit has its version.
        UnpublishedLimitError: earlier commits must be published first.
        InvalidCommitError: it leaves a gap, or its time is not later than the latest commit's.
        CatalogTableMissingError: the table was dropped.
    """
    try:
        with transaction.atomic():
            if published_version is not None:
                note_published(table, published_version)
            _claim(table, proposal, origin)
    except VersionTakenError:
        if keeps_attempts:
            _record_attempt(table, proposal.commit, origin)
        raise


def ratify_group(
    proposals: Sequence[GroupProposal],
    unchanged: Mapping[int, int],
    origin: CommitOrigin,
    *,
    keeps_attempts: bool = True,
) -> None:
    """Ratify a checked proposal for each of several tables, or for none of them.

    `unchanged` are the latest versions that other tables must still have, by their primary keys.
    Rows are locked in the order of their keys, so that two groups never wait for each other.

    Raises:
        GroupRefusedError: one was refused, as `ratify` refuses it, or a table has changed.
    """
    by_key = {one.table.pk: one for one in proposals}
    try:
        with transaction.atomic():
            for key in sorted({*by_key, *unchanged}):
                if key in by_key:
                    _claim_member(by_key[key], origin)
                else:
                    _check_unchanged(key, unchanged[key])
    except GroupRefusedError as refused:
        one = next((one for one in proposals if one.table_id == refused.table_id), None)
        if keeps_attempts and one is not None and isinstance(refused.cause, VersionTakenError):
            _record_attempt(one.table, one.proposal.commit, origin)
        raise


def list_commits(table: ManagedTable, first: int = 0, last: int | None = None) -> RatifiedCommits:
    """Return the latest version and the last commits of a range, published ones among them.

    Raises:
        CatalogTableMissingError: the table was dropped.
    """
    row = ManagedTable.objects.filter(pk=table.pk, dropped_at=None).first()
    if row is None:
        raise table_missing_error(table, table.table_id)
    latest = row.latest_version  # read first: each of its commits is there
    named = table.ratified.filter(
        version__gte=first, version__lte=latest if last is None else min(last, latest)
    )
    commits = tuple(version.commit for version in named.order_by("-version")[:MAX_NAMED])
    return RatifiedCommits(latest, commits[::-1])


def check_published(table: ManagedTable, store: Store, version: int) -> None:
    """Check a client's statement that all versions up to one are published.

    Raises:
        InvalidCommitError: one of them is not in the log.
        StorageError: the log could not be read.
    """
    unpublished = table.ratified.filter(
        version__gt=table.published_version, version__lte=version
    ).order_by("version")
    for row in unpublished:
        status = store.stat(commit_path(row.version))
        if status is None or status.size_bytes != row.size_bytes:
            what = f"Version {row.version} of {table} is not published."
            raise InvalidCommitError(what, "Copy its staged file into the log first.")


def note_published(table: ManagedTable, version: int) -> None:
    """Note that all versions up to one are published.

    Raises:
        InvalidCommitError: it is later than the latest version.
    """
    rows = ManagedTable.objects.filter(pk=table.pk, latest_version__gte=version)
    if not rows.exists():
        what = f"Version {version} of {table} is not ratified, so it cannot be published."
        raise InvalidCommitError(what, "Report only ratified versions.")
    rows.filter(published_version__lt=version).update(published_version=version)


def begin_table(table: ManagedTable, store: Store) -> bool:
    """Take up version 0 once it is in the log, where its creator writes it; return whether it is.

    Raises:
        InvalidCommitError, StorageError: as in `read_first`.
    """
    if table.latest_version < 0:
        first = read_first(table, store)
        if first is not None:
            rows = ManagedTable.objects.filter(pk=table.pk, latest_version=-1)
            rows.update(**first, updated_at=timezone.now())
        table.refresh_from_db()
    return table.latest_version >= 0


def read_first(table: ManagedTable, store: Store) -> dict[str, Any] | None:
    """Return the fields of a table that follow from version 0; None if its log has none.

    Raises:
        InvalidCommitError: it is not the first commit of this managed table.
        StorageError: it could not be read.
    """
    try:
        data = store.read(commit_path(0))
    except FileMissingError:
        return None
    actions = read_actions(data, 0)
    timestamp_ms = check_provenance(actions, 0)
    _check_first(table, actions)
    return {
        "latest_version": 0,
        "published_version": 0,
        "timestamp_ms": timestamp_ms,
        "definition": _definition(actions),
    }


def _claim_member(one: GroupProposal, origin: CommitOrigin) -> None:
    with refuse_group(one.table_id):
        if one.published_version is not None:
            note_published(one.table, one.published_version)
        _claim(one.table, one.proposal, origin)


def _check_unchanged(key: int, version: int) -> None:
    row = ManagedTable.objects.select_for_update().get(pk=key)
    with refuse_group(str(row.table_id)):
        if row.dropped_at is not None:
            raise table_missing_error(row, row.table_id)
        if row.latest_version != version:
            raise _version_taken(row, version + 1)


def _claim(table: ManagedTable, proposal: ProposedCommit, origin: CommitOrigin) -> None:
    """Compare and set the latest version, and write its row; or raise why not."""
    commit = proposal.commit
    before = commit.version - 1
    changes: dict[str, Any] = {}
    changed = [one for one in (proposal.metadata, proposal.protocol) if one is not None]
    if changed:
        now = ManagedTable.objects.select_for_update().get(pk=table.pk).definition
        changes["definition"] = {**now, **_definition(changed)}
    claimed = ManagedTable.objects.filter(
        pk=table.pk,
        dropped_at=None,
        latest_version=before,
        published_version__gte=before - settings.CATALOG_MAX_UNPUBLISHED + 1,
        timestamp_ms__lt=commit.timestamp_ms,
    ).update(
        latest_version=commit.version,
        timestamp_ms=commit.timestamp_ms,
        updated_at=timezone.now(),
        **changes,
    )
    if not claimed:
        _refuse(table, commit, origin)
    else:
        fields = source_fields(commit, asdict(origin))
        RatifiedVersion.objects.create(table=table, **fields)


def _refuse(table: ManagedTable, commit: RatifiedCommit, origin: CommitOrigin) -> None:
    """Raise why a commit is not the next version; return if it was ratified meanwhile."""
    row = ManagedTable.objects.get(pk=table.pk)
    if row.dropped_at is not None:
        raise table_missing_error(table, table.table_id)
    if commit.version <= row.latest_version:
        earlier = table.ratified.filter(version=commit.version).first()
        if earlier is not None and earlier.is_commit(commit, origin.user_id):
            return
        raise _version_taken(table, commit.version)
    if commit.version > row.latest_version + 1:
        what = f"Version {commit.version} of {table} cannot follow version {row.latest_version}."
        raise InvalidCommitError(what, f"Propose version {row.latest_version + 1}.")
    if commit.timestamp_ms <= row.timestamp_ms:
        what = (
            f"The in-commit timestamp of version {commit.version} of {table} must be later than "
            f"{row.timestamp_ms}, that of the version before."
        )
        raise InvalidCommitError(what, "Stage it again with a later time.")
    unpublished = row.latest_version - row.published_version
    what = f"{unpublished} commits of {table} are not published."
    raise UnpublishedLimitError(what, "Publish them, then propose this one again.")


@transaction.atomic
def _record_attempt(table: ManagedTable, commit: RatifiedCommit, origin: CommitOrigin) -> None:
    rows = ManagedTable.objects.filter(pk=table.pk)
    latest = rows.values_list("latest_version", flat=True).get()
    attempt, is_new = CommitAttempt.objects.get_or_create(
        table=table,
        file_name=commit.file_name,
        defaults={**source_fields(commit, asdict(origin)), "latest_version": latest},
    )
    if is_new:
        rows.update(refused_count=F("refused_count") + 1)
    else:
        CommitAttempt.objects.filter(pk=attempt.pk).update(tries=F("tries") + 1)


def _check_first(table: ManagedTable, actions: list[Action]) -> None:
    protocol = next((action for action in actions if isinstance(action, Protocol)), None)
    metadata = next((action for action in actions if isinstance(action, Metadata)), None)
    if protocol is None or metadata is None or not has_feature(protocol, CATALOG_MANAGED):
        what = f"Version 0 of {table} does not make it a table that a catalog manages."
        raise InvalidCommitError(what, "Create it again, with the feature catalogManaged.")
    try:
        check_writable(table.location, protocol)
    except UnsupportedFeatureError as error:
        raise InvalidCommitError(error.what, error.remedy) from error
    _check_metadata(table, metadata)


def _check_metadata(table: ManagedTable, metadata: Metadata) -> None:
    """Check the schema, and the properties without which no catalog can manage a table."""
    try:
        parse_schema(metadata.schema_string)
    except EngineError as error:
        raise InvalidCommitError(error.what, error.remedy) from error
    if not TableProperties.parse(metadata.configuration).in_commit_timestamps:
        what = f"{table} needs in-commit timestamps."
        raise InvalidCommitError(what, "Set delta.enableInCommitTimestamps to true.")
    table_id = metadata.configuration.get(UNITY_TABLE_ID)
    if table_id != str(table.table_id):
        what = f"The property {UNITY_TABLE_ID} of {table} must be {table.table_id}."
        raise InvalidCommitError(what, "Keep the id that the catalog gave the table.")


def _definition(actions: list[Any]) -> dict[str, Any]:
    """Return the `metaData` and `protocol` actions among these as JSON."""
    kinds = [action for action in actions if isinstance(action, Metadata | Protocol)]
    return {name: body for action in kinds for name, body in json.loads(encode(action)).items()}


def _version_taken(table: ManagedTable, version: int) -> VersionTakenError:
    what = f"Version {version} of {table} is another commit."
    return VersionTakenError(what, "Read the commits since the version read, check, and try again.")


def table_missing_error(name: object, table_id: object) -> CatalogTableMissingError:
    """Return the error for a table that was dropped."""
    what = f"The catalog has no table {name} with the id {table_id} any more."
    return CatalogTableMissingError(what)
