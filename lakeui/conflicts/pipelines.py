"""Takes a batch of events of one program: each is stored once, or refused with its reason.

Events of a transaction may come twice, late, or without earlier ones dropped by the program: each
event therefore states all known facts of its transaction, and none relies on another.

Anyone with a token may send anything, so an event is checked before it is stored, and facts of a
conflict that the engine could not have recorded are refused. Checks read; they write nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from engine.conflict_facts import Decision, Rule
from engine.conflicts.decide.checker import CHECKS
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import ConflictError, ConflictFacts, ConflictSide, RequestError
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.models import Conflict, Pipeline, PipelineTransaction
from lakeui.conflicts.recording import AttemptOrigin, record_aborted, record_resolved
from lakeui.conflicts.reports.links import LinkedReport, explain_report, record_report, table_named
from lakeui.jobs.timeline import span_ms

BEGUN, RESOLVED, ABORTED = "begun", "resolved", "aborted"
COMMITTED, FAILED, ENDED, REPORTED = "committed", "failed", "ended", "reported"
KINDS = (BEGUN, RESOLVED, ABORTED, COMMITTED, FAILED, ENDED, REPORTED)
MAX_AGE, MAX_AHEAD = timedelta(days=90), timedelta(minutes=5)
MAX_UNSEEN_VERSIONS = 1_000
"""How far past the latest mirrored version a commit may be."""


_UNNAMED = {"operation": WinningCommit(version=0, actions=()).operation}
"""The engine's value if the log names nothing."""

MAX_NUMBER = 2**53
MAX_ITEMS = 2_000
"""Of one list; the engine's own are shorter."""
_T = TypeVar("_T")
_ERRORS = {check.error.__name__: check.error for check in CHECKS}

_AS_RECORDED = "Send what the engine recorded, unchanged."

State = PipelineTransaction.State

_ENDS: Mapping[str, State] = {
    ABORTED: State.ABORTED,
    REPORTED: State.ABORTED,
    COMMITTED: State.COMMITTED,
    FAILED: State.FAILED,
    ENDED: State.ENDED,
}


@dataclass(frozen=True, slots=True)
class ResolvedFacts:
    """The engine's facts of a conflict resolved at row level, and of this transaction."""

    winner: ConflictSide
    rule: Rule
    files: tuple[str, ...]
    row_count: int
    how: str
    duration_ms: int
    current: ConflictSide
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    decision: Decision | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a transaction. `table` is its location, or its name here.

    `begun`, `failed` and `ended` (there was nothing to commit) add nothing to it; `resolved` has
    its `conflict`, `aborted` its `conflict` and `exception`, `committed` its `version`, `reported`
    the `text` of an error.
    """

    kind: str
    table: str
    txn_id: str
    sequence: int
    at: datetime
    run_id: str = ""
    started_at: datetime | None = None
    attempt: int = 1
    operation: str = ""
    statement: str = ""
    read_version: int | None = None
    version: int | None = None
    exception: str = ""
    conflict: Any = None
    wasted_bytes: int = 0
    text: str = ""


Content = ConflictError | ResolvedFacts | LinkedReport | None
"""An event's data beside its transaction: by its kind, the conflict."""


@dataclass(frozen=True, slots=True)
class CheckedEvent:
    """A valid event, with its table and its content."""

    event: Event
    table: Table
    content: Content = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The reporter: its application, machine, user there, and engine."""

    application: str
    host: str = ""
    user: str = ""
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused event: its index in the batch, and why."""

    index: int
    field: str
    message: str
    remedy: str


@dataclass
class BatchResult:
    """The result of a batch."""

    accepted: int = 0
    duplicates: int = 0
    refused: list[Refusal] = field(default_factory=list)


def take_events(
    events: Sequence[Event],
    writer: Writer,
    by: User | None,
    tables: QuerySet[Table],
    *,
    dropped: int = 0,
) -> BatchResult:
    """Store a batch's events on these tables, all in one transaction.

    `dropped` is how many events the program had to drop since its last batch.
    """
    taken, now, checked = BatchResult(), timezone.now(), []
    checks = Checks(tables, now)
    for index, event in enumerate(events):
        try:
            checked.append(checks.check(event))
        except RequestError as fault:
            taken.refused.append(Refusal(index, fault.field, fault.what, fault.remedy))
    if not checked:
        return taken
    with transaction.atomic():
        pipeline = _pipeline(writer, by, now)
        for item in checked:
            is_new = _keep(item, _transaction(item, pipeline, writer, now), by)
            taken.accepted += is_new
            taken.duplicates += not is_new
        heard: dict[str, Any] = {"last_seen_at": now}
        if taken.accepted:  # a repeated batch reports the same drops
            heard["dropped"] = F("dropped") + dropped
        Pipeline.objects.filter(pk=pipeline.pk).update(**heard)
    return taken


def _pipeline(writer: Writer, by: User | None, now: datetime) -> Pipeline:
    pipeline, _ = Pipeline.objects.get_or_create(
        name=writer.application,
        reported_by=by,
        defaults={"first_seen_at": now, "last_seen_at": now},
    )
    return pipeline


def _transaction(
    checked: CheckedEvent, pipeline: Pipeline, writer: Writer, now: datetime
) -> PipelineTransaction:
    """Return the locked row, completed with the new facts of this event."""
    event = checked.event
    row, _ = PipelineTransaction.objects.select_for_update().get_or_create(
        pipeline=pipeline,
        table=checked.table,
        txn_id=event.txn_id,
        defaults={
            "host": writer.host,
            "user_name": writer.user,
            "engine": writer.engine,
            "attempt": event.attempt,
            "reported_at": now,
        },
    )
    row.run_id = row.run_id or event.run_id
    row.operation = row.operation or event.operation
    row.statement = row.statement or event.statement
    row.read_version = event.read_version if row.read_version is None else row.read_version
    return row


def _keep(checked: CheckedEvent, row: PipelineTransaction, by: User | None) -> bool:
    """Store one event; return whether it is new."""
    event, content = checked.event, checked.content
    if content is not None:
        is_new = not Conflict.objects.filter(transaction=row, sequence=event.sequence).exists()
        if is_new:
            _record(content, event, row, by)
    elif event.kind == BEGUN:
        is_new = row.started_at is None
    else:
        is_new = row.state == State.RUNNING
    row.started_at = row.started_at or event.started_at
    if event.kind in _ENDS and row.state == State.RUNNING:
        row.state, row.ended_at = _ENDS[event.kind], event.at
    if event.kind == COMMITTED and row.committed_version is None:
        row.committed_version = event.version
        resolved = row.conflicts.filter(kind=Conflict.Kind.RESOLVED)
        resolved.update(attempted_version=event.version)
    row.save()
    return is_new


def _record(content: Content, event: Event, row: PipelineTransaction, by: User | None) -> None:
    began = event.started_at or row.started_at or event.at
    origin = AttemptOrigin(
        attempt=event.attempt,
        transaction_id=row.pk,
        sequence=event.sequence,
        occurred_at=event.at,
    )
    writer = str(row.pipeline)
    wasted_ms = span_ms(began, event.at)
    match content:
        case None:
            return
        case ConflictError():
            facts = content.conflict
            current = replace(facts.current, user=writer)  # whatever name it reports
            record_aborted(
                type(content)(replace(facts, current=current)),
                table=row.table,
                origin=origin,
                wasted_ms=wasted_ms,
                wasted_bytes=event.wasted_bytes,
            )
        case ResolvedFacts():
            record_resolved(
                replace(content, current=replace(content.current, user=writer)),
                table=row.table,
                origin=origin,
                committed_version=row.committed_version,
            )
        case LinkedReport():
            record_report(
                content,
                by,
                read_version=event.read_version,
                operation=event.operation,
                origin=origin,
                user_name=writer,
                wasted_ms=wasted_ms,
            )


class Checks:
    """The checks of one batch: each table and each winning commit is queried once."""

    def __init__(self, tables: QuerySet[Table], now: datetime) -> None:
        self._tables, self._now = tables, now
        self._named: dict[str, Table | None] = {}
        self._commits: dict[tuple[int, int], Commit | None] = {}

    def check(self, event: Event) -> CheckedEvent:
        """Return the event, ready to be stored.

        Raises:
            RequestError: it is invalid.
        """
        _check_times(event, self._now)
        table = self._table(event.table)
        return CheckedEvent(event, table, self._content(event, table))

    def _table(self, name: str) -> Table:
        if name not in self._named:
            self._named[name] = table_named(name, self._tables)
        table = self._named[name]
        if table is None:
            what = f"No table that this account may report on is registered as {name[:200]!r}."
            remedy = "Register it, or ask an administrator for the role reporter on it."
            raise RequestError(what, remedy, field="table")
        return table

    def _content(self, event: Event, table: Table) -> Content:
        match event.kind:
            case "resolved":
                resolved = read_resolved(_require_field(event, "conflict"))
                return replace(resolved, winner=self._winner(resolved.winner, table))
            case "aborted":
                error = read_aborted(
                    _require_field(event, "exception"), _require_field(event, "conflict")
                )
                winner = self._winner(error.conflict.winner, table)
                return type(error)(replace(error.conflict, winner=winner))
            case "committed":
                self._check_own_commit(event, _require_field(event, "version"), table)
            case "reported":
                linked = explain_report(_require_field(event, "text"), self._tables, table)
                if linked.report.conflict is None:
                    what = "The text does not describe a conflict of a Delta table."
                    raise RequestError(what, "Send the complete error message.", field="text")
                return linked
            case _:
                pass
        return None

    def _winner(self, winner: ConflictSide, table: Table) -> ConflictSide:
        """Return the winning side, which must match the log as far as it is mirrored."""
        commit = self._commit(table, winner.version or 0, "conflict.winner.version")
        if commit is None:
            return winner
        for name, said, logged in (
            ("txn_id", winner.txn_id, commit.txn_id),
            ("operation", winner.operation, commit.operation),
            ("user", winner.user, commit.user_name),
        ):
            if said and said != (logged or _UNNAMED.get(name)):
                what = (
                    f"Version {commit.version} of {table.name} has a different {name} in the log."
                )
                remedy = "Report conflicts only for the table that is registered here."
                raise RequestError(what, remedy, field=f"conflict.winner.{name}")
        if commit.committed_at is None:
            return winner
        return replace(winner, timestamp_ms=round(commit.committed_at.timestamp() * 1000))

    def _check_own_commit(self, event: Event, version: int, table: Table) -> None:
        commit = self._commit(table, version, "version")
        if commit is not None and commit.txn_id and commit.txn_id != event.txn_id:
            what = f"Version {version} of {table.name} was committed by another transaction."
            remedy = "Report the version that this transaction committed."
            raise RequestError(what, remedy, field="version")

    def _commit(self, table: Table, version: int, field: str) -> Commit | None:
        """Return the mirrored commit; None if it is not, or no longer, mirrored."""
        if version > (table.version or 0) + MAX_UNSEEN_VERSIONS:
            what = f"The latest mirrored version of {table.name} is {table.version}."
            raise RequestError(what, "Sync the table, then send the event again.", field=field)
        key = (table.pk, version)
        if key not in self._commits:
            narrow = Commit.objects.only(
                "table", "version", "txn_id", "operation", "user_name", "committed_at"
            )
            self._commits[key] = narrow.filter(table=table, version=version).first()
        return self._commits[key]


def _check_times(event: Event, now: datetime) -> None:
    started_at = event.started_at or event.at
    for name, moment in (("at", event.at), ("started_at", started_at)):
        if not now - MAX_AGE <= moment <= now + MAX_AHEAD:
            what = f"{moment:%Y-%m-%d %H:%M} UTC is more than 90 days ago or in the future."
            raise RequestError(what, "Correct the clock of the reporting machine.", field=name)
    if started_at > event.at:
        what = "The transaction started after this event."
        raise RequestError(
            what, "Send the time at which the transaction started.", field="started_at"
        )


def _require_field(event: Event, field: str) -> Any:  # noqa: ANN401 - of the field's type
    value = getattr(event, field)
    if value is None or value == "":
        what = f"An event of the kind {event.kind} has {field}."
        raise RequestError(what, "Send it.", field=field)
    return value


def read_aborted(exception: str, said: Any) -> ConflictError:  # noqa: ANN401 - JSON
    """Return the error of an aborted write, as the engine raised it.

    Raises:
        RequestError: the engine raises no such error, or not with such facts.
    """
    kind = _ERRORS.get(exception)
    if kind is None:
        what = f"The engine has no conflict called {exception[:100]!r}."
        remedy = f"Use one of {', '.join(sorted(_ERRORS))}."
        raise RequestError(what, remedy, field="exception")
    facts = _read(said, ConflictFacts)
    _check_sides(facts.current, facts.winner, facts.read_version)
    if facts.rule not in {check.rule for check in CHECKS if check.error is kind}:
        what = f"The rule {facts.rule} does not raise {exception}."
        raise RequestError(what, _AS_RECORDED, field="conflict.rule")
    return kind(facts)


def read_resolved(said: Any) -> ResolvedFacts:  # noqa: ANN401 - JSON
    """Return a conflict resolved at row level.

    Raises:
        RequestError: the engine does not record such a conflict.
    """
    facts = _read(said, ResolvedFacts)
    _check_sides(facts.current, facts.winner, facts.current.read_version)
    return facts


def _read(said: Any, model: type[_T]) -> _T:  # noqa: ANN401 - JSON
    try:
        facts = msgspec.convert(said, model)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        where = f"conflict{place.rstrip('`')}"
        msg = f"{what}."
        raise RequestError(msg, _AS_RECORDED, field=where) from None
    for place, what in _faults(said, asdict(facts), "conflict"):  # type: ignore[call-overload]
        raise RequestError(what, _AS_RECORDED, field=place)
    return facts


def _faults(said: Any, allowed: Any, place: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - JSON
    """Yield unknown names, and numbers beyond a database's range."""
    if isinstance(said, Mapping) and isinstance(allowed, Mapping):
        for name in said:
            if name not in allowed:
                yield f"{place}.{name[:100]}", "Unknown field."
            else:
                yield from _faults(said[name], allowed[name], f"{place}.{name[:100]}")
    elif isinstance(said, list) and isinstance(allowed, list | tuple):
        if len(said) > MAX_ITEMS:
            yield place, f"The list has {len(said):,} items, but the limit is {MAX_ITEMS:,}."
        for number, (inner, also) in enumerate(zip(said, allowed, strict=False)):
            yield from _faults(inner, also, f"{place}[{number}]")
    elif isinstance(said, int) and not -MAX_NUMBER <= said <= MAX_NUMBER:
        yield place, "The number is larger than 53 bits."


def _check_sides(current: ConflictSide, winner: ConflictSide, read_version: int | None) -> None:
    version = winner.version
    if version is None or not 0 <= version <= MAX_NUMBER:
        what = "The version of the winning commit is not valid."
        raise RequestError(what, _AS_RECORDED, field="conflict.winner.version")
    if read_version is None or not -1 <= read_version < version:
        what = f"A write that read version {read_version} does not overlap with version {version}."
        raise RequestError(what, _AS_RECORDED, field="conflict.read_version")
    if current.read_version != read_version or current.version is not None:
        what = "The current side is not the write that was checked."
        raise RequestError(what, _AS_RECORDED, field="conflict.current")
