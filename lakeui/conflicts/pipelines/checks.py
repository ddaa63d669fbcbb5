"""Checks of a program's event before it is stored. Checks read; nothing is written here."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from engine.conflicts.transaction_info import WinningCommit
from engine.errors import ConflictError, ConflictSide, RequestError
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.pipelines.facts import (
    ResolvedFacts,
    read_aborted,
    read_resolved,
)
from lakeui.conflicts.reports.links import LinkedReport, explain_report, table_named

BEGUN, RESOLVED, ABORTED = "begun", "resolved", "aborted"
COMMITTED, FAILED, ENDED, REPORTED = "committed", "failed", "ended", "reported"
KINDS = (BEGUN, RESOLVED, ABORTED, COMMITTED, FAILED, ENDED, REPORTED)
MAX_AGE, MAX_AHEAD = timedelta(days=90), timedelta(minutes=5)
MAX_UNSEEN_VERSIONS = 1_000
"""How far past the latest mirrored version a commit may be."""


_UNNAMED = {"operation": WinningCommit(version=0, actions=()).operation}
"""The engine's value if the log names nothing."""


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
                    what = "The text tells of no conflict of a Delta table."
                    raise RequestError(what, "Send the whole text of the error.", field="text")
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
                what = f"Version {commit.version} of {table.name} has another {name} in the log."
                remedy = "Report the conflicts of the table that is registered here."
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
            what = f"The latest version of {table.name} that is known here is {table.version}."
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
    for field, moment in (("at", event.at), ("started_at", started_at)):
        if not now - MAX_AGE <= moment <= now + MAX_AHEAD:
            what = f"{moment:%Y-%m-%d %H:%M} UTC is more than 90 days ago, or has yet to come."
            raise RequestError(what, "Set the clock of the machine that reports.", field=field)
    if started_at > event.at:
        what = "The transaction began after this happened."
        raise RequestError(what, "Send the time at which it began.", field="started_at")


def _require_field(event: Event, field: str) -> Any:  # noqa: ANN401 - of the field's type
    value = getattr(event, field)
    if value is None or value == "":
        what = f"An event of the kind {event.kind} has {field}."
        raise RequestError(what, "Send it.", field=field)
    return value
