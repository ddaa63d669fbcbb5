"""Commits that the catalog refused, judged by the engine's checks and recorded as conflicts.

The catalog refuses a commit because its version is taken. Whether it conflicts with the commits
that were first is another question: both sides are on storage, whoever wrote them.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from engine.actions.commit_info import CommitInfo
from engine.actions.files import AddFile, RemoveFile
from engine.catalog.catalog import RatifiedCommit, read_actions
from engine.conflict_facts import Rule
from engine.conflicts.decide.checker import CHECK_OF
from engine.conflicts.predict.replay_history import (
    RecordedTable,
    find_first_conflict,
    rebuild_transaction,
)
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import ConflictFacts, EngineError, FileMissingError, InvalidCommitError
from engine.log.paths import commit_path
from engine.protocol.properties import TableProperties
from engine.schema.column_mapping import column_mapping_mode
from engine.schema.types import parse_schema
from engine.storage.base import Store
from lakeui.catalog import log_values
from lakeui.catalog.models import Table
from lakeui.conflicts.models import PipelineTransaction
from lakeui.conflicts.pipelines import ABORTED, COMMITTED, Event, Writer, take_events
from lakeui.managed.models import CommitAttempt, ManagedTable, RatifiedVersion

logger = logging.getLogger(__name__)

RETRIED_WITHIN = timedelta(minutes=10)
"""A client that commits the same later than this has started again."""
_MAX_WINNERS = 100
_MAX_PATHS = 50
_MAX_LOOKED_AT = 20
Verdict = CommitAttempt.Verdict


@dataclass(frozen=True, slots=True)
class AttemptJudgment:
    """The checks' verdict on a refused commit; `facts` if it conflicts."""

    verdict: Verdict
    why: str
    facts: ConflictFacts | None = None


def examine_attempt(attempt: CommitAttempt, store: Store) -> None:
    """Compare a refused commit with the commits that were first, and record the result.

    Raises:
        StorageError: a file could not be read. Nothing is recorded.
    """
    try:
        refused = _read_commit(store, attempt.commit)
        winners = [_read_ratified(store, row) for row in _winners(attempt)]
        judgment = judge(attempt.table, refused, winners)
    except (FileMissingError, InvalidCommitError) as error:
        _set(attempt, verdict=Verdict.UNREADABLE, why=log_values.text(error.what))
        return
    recorded = _record(attempt, refused, judgment)
    _set(
        attempt,
        verdict=judgment.verdict,
        why=judgment.why,
        rule=judgment.facts.rule if judgment.facts else "",
        operation=log_values.text(refused.info.operation, 100),
        content=_content_of(refused),
        transaction=recorded,
    )


def judge(
    table: ManagedTable, refused: WinningCommit, winners: Sequence[WinningCommit]
) -> AttemptJudgment:
    """Judge a refused commit at file level, by the level of its table."""
    metadata = table.definition["metaData"]
    configuration = metadata.get("configuration", {})
    try:
        schema = parse_schema(metadata.get("schemaString", ""))
        level = TableProperties.parse(configuration).isolation_level
    except EngineError as error:
        return AttemptJudgment(Verdict.UNDECIDABLE, error.what)
    recorded = RecordedTable(
        table.full_name,
        schema,
        tuple(metadata.get("partitionColumns", ())),
        column_mapping_mode(configuration),
    )
    current, certain = rebuild_transaction(refused, recorded, level)
    facts = find_first_conflict(current, winners, refused.version)
    if facts is None:
        return AttemptJudgment(Verdict.PASSES, "It would have passed the checks.")
    if not certain:  # what it surely read are the files that it removes
        without = replace(current, reads=(), read_files=frozenset())
        facts = find_first_conflict(without, winners, refused.version)
    if facts is None:
        why = "Its reads are not recorded. It would conflict if it read the whole table."
        return AttemptJudgment(Verdict.UNDECIDABLE, why)
    title = CHECK_OF[Rule(facts.rule)].title
    return AttemptJudgment(Verdict.CONFLICT, f"{title}, by version {facts.winner.version}.", facts)


def find_retry(attempt: CommitAttempt, store: Store) -> int | None:
    """Record the version as which the client of a refused commit committed the same afterwards.

    The same is a commit of the same transaction, with the same files, or of the same operation on
    rows of the same condition.

    Raises:
        StorageError: a file could not be read.
    """
    rows = attempt.table.ratified.filter(
        version__gt=attempt.version,
        user=attempt.user_id,
        client=attempt.client,
        ratified_at__range=(attempt.refused_at, attempt.refused_at + RETRIED_WITHIN),
    )
    for row in rows.order_by("version")[:_MAX_LOOKED_AT]:
        try:
            landed = _read_ratified(store, row)
        except (FileMissingError, InvalidCommitError):
            continue
        if _is_same(attempt.content, _content_of(landed)):
            _set(attempt, retried_version=row.version)
            _record_retry(attempt, row, landed)
            return row.version
    return None


def list_unread(table: ManagedTable) -> Iterable[CommitAttempt]:
    """Return refused commits to be examined, oldest first."""
    rows = table.attempts.filter(verdict=Verdict.UNREAD).order_by("refused_at")
    return rows.select_related("table__mirror", "user")[:100]


def list_unretried(table: ManagedTable, now: datetime) -> Iterable[CommitAttempt]:
    """Return refused commits whose clients may still commit the same, the last attempt first."""
    rows = table.attempts.filter(refused_at__gt=now - RETRIED_WITHIN, retried_version=None)
    rows = rows.exclude(verdict__in=(Verdict.UNREAD, Verdict.UNREADABLE))
    return rows.select_related("table__mirror", "user", "transaction").order_by("-refused_at")[:100]


def _winners(attempt: CommitAttempt) -> Iterable[RatifiedVersion]:
    versions = (attempt.version, attempt.latest_version)
    rows = attempt.table.ratified.filter(version__range=versions)
    return rows.order_by("version")[:_MAX_WINNERS]


def _read_ratified(store: Store, row: RatifiedVersion) -> WinningCommit:
    """Read a version, from the log if its staged file was deleted after its publication."""
    try:
        return _read_commit(store, row.commit)
    except FileMissingError:
        return _read_commit(store, row.commit, commit_path(row.version))


def _read_commit(store: Store, commit: RatifiedCommit, path: str = "") -> WinningCommit:
    """Read a commit. It was based on the version before its own."""
    actions = tuple(read_actions(store.read(path or commit.path), commit.version))
    info = next((action for action in actions if isinstance(action, CommitInfo)), CommitInfo())
    return WinningCommit(
        version=commit.version,
        actions=actions,
        info=msgspec.structs.replace(info, read_version=commit.version - 1),
        timestamp_ms=commit.timestamp_ms,
    )


def _content_of(commit: WinningCommit) -> dict[str, Any]:
    """Return what identifies a commit's content, as JSON."""
    paths = sorted(_iter_paths(commit))[:_MAX_PATHS]
    said = {
        "txn_id": commit.info.txn_id or "",
        "paths": paths,
        "operation": commit.info.operation or "",
        "parameters": commit.info.operation_parameters or {},
    }
    return {name: log_values.json_value(value) for name, value in said.items()}


def _iter_paths(commit: WinningCommit) -> Iterator[str]:
    for action in commit.actions:
        if isinstance(action, AddFile) and action.data_change:
            yield f"+{action.path}"
        elif isinstance(action, RemoveFile) and action.data_change:
            yield f"-{action.path}"


def _is_same(refused: Mapping[str, Any], landed: Mapping[str, Any]) -> bool:
    if refused["txn_id"] and refused["txn_id"] == landed["txn_id"]:
        return True
    added = {path for path in refused["paths"] if path.startswith("+")}
    if added and added <= {*landed["paths"]}:
        return True
    repeats = all(refused[name] == landed[name] for name in ("operation", "parameters"))
    return repeats and refused["parameters"].get("predicate") not in (None, "", "[]")


def _record(
    attempt: CommitAttempt, refused: WinningCommit, judgment: AttemptJudgment
) -> PipelineTransaction | None:
    """Record a conflict as that of a program that reports its own; return its transaction."""
    facts = judgment.facts
    if facts is None:
        return None
    earlier = _earlier_attempt(attempt, _content_of(refused))
    event = Event(
        kind=ABORTED,
        table=attempt.table.mirror.uri,
        txn_id=_transaction_id(attempt),
        sequence=attempt.pk,
        at=attempt.refused_at,
        run_id=earlier.run_id if earlier else _transaction_id(attempt),
        attempt=earlier.attempt + 1 if earlier else 1,
        operation=log_values.text(refused.info.operation, 100),
        read_version=facts.read_version,
        exception=CHECK_OF[Rule(facts.rule)].error.__name__,
        conflict=log_values.json_value(facts.as_dict()),
        wasted_bytes=sum(add.size for add in refused.adds),
    )
    return _send(attempt, refused, event)


def _record_retry(attempt: CommitAttempt, row: RatifiedVersion, landed: WinningCommit) -> None:
    """Record the commit as a later attempt of the run whose conflict is on record."""
    refused = attempt.transaction
    if refused is None:
        return
    event = Event(
        kind=COMMITTED,
        table=attempt.table.mirror.uri,
        txn_id=log_values.text(landed.info.txn_id, 100) or row.file_name[:100],
        sequence=0,
        at=row.ratified_at,
        run_id=refused.run_id,
        attempt=refused.attempt + 1,
        operation=log_values.text(landed.info.operation, 100),
        read_version=row.version - 1,
        version=row.version,
    )
    _send(attempt, landed, event)


def _send(
    attempt: CommitAttempt, commit: WinningCommit, event: Event
) -> PipelineTransaction | None:
    writer = Writer(
        application=attempt.client[:100] or "unknown client",
        user=log_values.text(commit.info.user_name, 255),
        engine=log_values.text(commit.info.engine_info, 100),
    )
    mirror = Table.objects.filter(pk=attempt.table.mirror_id)
    taken = take_events([event], writer, attempt.user, mirror)
    for refusal in taken.refused:  # the log in the mirror is another one
        logger.warning("Attempt %s is not recorded: %s", attempt.pk, refusal.message)
    rows = PipelineTransaction.objects.filter(table=attempt.table.mirror_id, txn_id=event.txn_id)
    return rows.order_by("-pk").first()


def _earlier_attempt(
    attempt: CommitAttempt, content: Mapping[str, Any]
) -> PipelineTransaction | None:
    """Return the transaction of the same commit's attempt before, if its client tried again."""
    since = attempt.refused_at - RETRIED_WITHIN
    rows = attempt.table.attempts.filter(
        user=attempt.user_id,
        client=attempt.client,
        refused_at__range=(since, attempt.refused_at),
        transaction__isnull=False,
        retried_version=None,
    ).exclude(pk=attempt.pk)
    for row in rows.select_related("transaction").order_by("-refused_at")[:_MAX_LOOKED_AT]:
        if _is_same(row.content, content):
            return row.transaction
    return None


def _transaction_id(attempt: CommitAttempt) -> str:
    """Return an id of this attempt alone: its client may use one for all attempts."""
    return attempt.file_name.split(".")[1]


def _set(attempt: CommitAttempt, **fields: Any) -> None:  # noqa: ANN401 - of the model
    CommitAttempt.objects.filter(pk=attempt.pk).update(**fields)
    for name, value in fields.items():
        setattr(attempt, name, value)
