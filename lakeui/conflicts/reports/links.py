"""A reported conflict, linked to its mirrored table and commit; and stored, if requested."""

from dataclasses import dataclass, replace
from datetime import timedelta

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from engine.clock import utc_from_ms
from engine.conflicts.decide.checker import RULE_OF_CODE
from engine.errors import EngineError
from engine.storage.uri import normalize_uri
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.assessment import facts_of
from lakeui.conflicts.costs import keep
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.recording import AttemptOrigin
from lakeui.conflicts.reports.messages import Report, ReportedConflict, add_remedies, parse_report


@dataclass(frozen=True, slots=True)
class LinkedReport:
    """A report with the mirror's facts. `how` names the fact that identified the winning commit."""

    report: Report
    table: Table | None = None
    commit: Commit | None = None
    how: str = ""

    @property
    def winning_version(self) -> int | None:
        """The winning commit's version, from the mirror or else from the message."""
        if self.commit is not None:
            return self.commit.version
        return self.report.conflict.winning_version if self.report.conflict else None


def explain_report(text: str, tables: QuerySet[Table], table: Table | None = None) -> LinkedReport:
    """Parse a text and find its winning commit among these tables, or in `table`.

    Raises:
        RequestError: see `parse_report`.
    """
    report = parse_report(text)
    if report.conflict is None:
        return LinkedReport(report, table)
    named = table or table_named(report.conflict.table, tables)
    commits = (
        Commit.objects.filter(table=named) if named else Commit.objects.filter(table__in=tables)
    )
    commit, how = _winner(report.conflict, commits.defer("raw"), named)
    linked = named or (commit.table if commit else None)
    if linked is not None:
        conflict = add_remedies(
            report.conflict,
            facts_of(linked),
            level=linked.isolation_level if linked.isolation_level_is_set else "",
            winner_is_blind=commit.is_blind_append if commit else None,
        )
        report = replace(report, conflict=conflict)
    return LinkedReport(report, linked, commit, how)


def record_report(  # noqa: PLR0913 - all but two by name
    linked: LinkedReport,
    by: User | None,
    *,
    read_version: int | None = None,
    operation: str = "",
    origin: AttemptOrigin | None = None,
    user_name: str = "",
    wasted_ms: int = 0,
) -> Conflict | None:
    """Store a reported conflict beside those of our own workers; None if the text reports none.

    `read_version` and `operation` are of the aborted write, which messages seldom state; the
    message's own facts take precedence. `origin` is the attempt's, if a program reports it,
    `user_name` the user of that program.
    """
    reported = linked.report.conflict
    if reported is None:
        return None
    winner = reported.winner
    happened_ms = (winner.timestamp_ms if winner else None) or 0
    return keep(
        table=linked.table,
        **(origin or AttemptOrigin(attempt=1)).fields(),
        kind=Conflict.Kind.REPORTED,
        exception=reported.exception,
        code=reported.code,
        subclass=reported.subclass,
        rule=RULE_OF_CODE.get(reported.code, ""),
        message=reported.excerpt,
        read_version=read_version if reported.read_version is None else reported.read_version,
        winning_version=linked.winning_version,
        current_operation=(reported.current_operation or operation)[:100],
        current_user_name=user_name or (by.get_username() if by else ""),
        wasted_ms=wasted_ms,
        winner_operation=(reported.winner_operation or "")[:100],
        winner_user_name=((winner.user if winner else None) or "")[:255],
        winner_at=utc_from_ms(happened_ms) if _is_plausible(happened_ms) else None,
        partitions=list(reported.partitions),
        can_retry=reported.can_retry,
        facts=reported.as_dict(),
    )


def table_named(name: str | None, tables: QuerySet[Table]) -> Table | None:
    """Return the one table of this name or location; a name may have more parts than ours."""
    if not name:
        return None
    clean = name.replace("`", "").removeprefix("delta.").rstrip("/")
    exact = list(tables.filter(Q(name=clean) | Q(uri__in=(clean, _place(clean))))[:2])
    if not exact:
        parts = clean.split(".")
        tails = [".".join(parts[start:]) for start in range(1, len(parts))]
        exact = list(tables.filter(name__in=tails)[:2])
    return exact[0] if len(exact) == 1 else None


def _place(text: str) -> str:
    """Return a location in the form of registered tables; the text itself if it is not a location."""
    if "/" not in text:
        return text
    try:
        return normalize_uri(text)
    except EngineError:
        return text


def _winner(
    reported: ReportedConflict, commits: QuerySet[Commit], table: Table | None
) -> tuple[Commit | None, str]:
    winner = reported.winner
    looks: list[tuple[str, Q]] = []
    if winner is not None and winner.txn_id:
        looks.append(("its transaction id", Q(txn_id=winner.txn_id)))
    if reported.winning_version is not None and table is not None:
        looks.append(("its version", Q(version=reported.winning_version)))
    if winner is not None and winner.timestamp_ms and _is_plausible(winner.timestamp_ms):
        at = utc_from_ms(winner.timestamp_ms)
        near = Q(committed_at__range=(at, at + timedelta(milliseconds=1)))
        looks.append(("its time and operation", near & Q(operation=winner.operation or "")))
    for how, look in looks:
        matches = list(commits.filter(look).select_related("table")[:2])
        if len(matches) == 1:
            return matches[0], how
    return None, ""


def _is_plausible(epoch_ms: int) -> bool:
    return 0 < epoch_ms < 253_402_300_800_000  # before the year 10000
