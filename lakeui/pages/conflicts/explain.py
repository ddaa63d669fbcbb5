"""A pasted error: its meaning, the winning commit, and how to avoid it.

The page offers messages to try, as each writer words them, and marks the facts that it found in the
pasted text.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from engine.clock import utc_from_ms
from engine.conflict_facts import Remedy, RemedyKind
from engine.conflicts.explain.exceptions import GUIDES, SUBCLASS_MEANINGS
from engine.errors import RequestError
from lakeui.catalog import log_values, units
from lakeui.catalog.access import Person, may, visible_tables
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.filters import visible_conflicts
from lakeui.conflicts.models import Conflict
from lakeui.conflicts.reports.history import PairHistory, pair_history
from lakeui.conflicts.reports.links import LinkedReport, explain_report, record_report
from lakeui.conflicts.reports.messages import ReportedConflict
from lakeui.conflicts.reports.text import FactMark
from lakeui.conflicts.reports.verdict import verdict_of

OPERATIONS = ("MERGE", "UPDATE", "DELETE", "WRITE", "OPTIMIZE", "STREAMING UPDATE")
_MAX_VERSION = 2**53
_RETRIES = frozenset({RemedyKind.RETRY, RemedyKind.RESTART_STREAM})
_OF_ELIGIBILITY = frozenset({RemedyKind.DELETION_VECTORS, RemedyKind.CLUSTER_INSTEAD})

_COMMIT = (
    'Conflicting commit: {"timestamp":1795141491000,"operation":"MERGE","operationParameters":'
    '{"predicate":"[\\"(t.item_id = s.item_id)\\"]"},"readVersion":2205,"isolationLevel":'
    '"WriteSerializable","isBlindAppend":false,"operationMetrics":{"numTargetRowsInserted":"18204"},'
    '"engineInfo":"Apache-Spark/3.5.3 Delta-Lake/3.2.1",'
    '"txnId":"5d0c4be1-77f2-4a0e-9a8d-30c2c1f5e6aa"}\n'
    "Refer to https://docs.delta.io/latest/concurrency-control.html for more details."
)
_ADDED = (
    "Files were added to partition [order_date=2026-11-19] by a concurrent update. Please try the "
    "operation again.\n"
)


_AGAIN = "Please try the operation again."
_SENTENCES = {  # of delta-spark
    "ConcurrentAppendException": f"Files were added to {{where}} by a concurrent update. {_AGAIN}",
    "ConcurrentDeleteReadException": "This transaction attempted to read one or more files that were"
    f" deleted by a concurrent update. {_AGAIN}",
    "ConcurrentDeleteDeleteException": "This transaction attempted to delete one or more files that"
    f" were deleted by a concurrent update. {_AGAIN}",
    "MetadataChangedException": "The metadata of the Delta table has been changed by a concurrent"
    f" update. {_AGAIN}",
}
HERE = "here"
_LOOKED_AT = 5

_BEFORE, _AFTER, _BETWEEN = 300, 200, 700
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200d\u2060\ufeff]")

LABELS = {
    "exception": "Exception",
    "subclass": "Sub-class",
    "partitions": "Partition",
    "file": "A file",
    "table": "Table",
    "winning_version": "Winning version",
    "winner_at": "Winning commit's time",
    "winner_operation": "Winning operation",
    "winner_rows": "Its new rows",
    "winner_user": "Winning writer",
    "winner_read_version": "The winning commit read",
    "isolation_level": "Level it used",
    "is_blind_append": "Blind append",
    "winner_engine": "Its engine",
    "txn_id": "Transaction",
    "read_version": "This write read",
    "current_operation": "This write",
}
_OF_WINNER = {
    "winning_version": "version",
    "winner_at": "time",
    "winner_operation": "operation",
    "isolation_level": "level",
    "txn_id": "transaction",
}


@dataclass(frozen=True, slots=True)
class SampleMessage:
    """A message by the writer it is of; `key` names it in the address."""

    key: str
    name: str
    text: str


SAMPLES = (
    SampleMessage(HERE, "the latest of this lake", ""),
    SampleMessage(
        "delta-spark",
        "delta-spark 2.x, 3.x",
        "26/11/20 02:25:03 ERROR MicroBatchExecution: Query items-upsert [id = 41b7, runId = 90c2] "
        f"terminated with error\nio.delta.exceptions.ConcurrentAppendException: {_ADDED}{_COMMIT}",
    ),
    SampleMessage(
        "delta-spark-4",
        "delta-spark 4.x",
        "io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] "
        f"ConcurrentAppendException: {_ADDED}{_COMMIT}",
    ),
    SampleMessage(
        "databricks",
        "Databricks 14.3",
        "com.databricks.sql.transaction.tahoe.ConcurrentDeleteReadException: "
        "[DELTA_CONCURRENT_DELETE_READ.ROW_LEVEL_CHANGES] Transaction conflict detected, a "
        "concurrent UPDATE deleted data from table main.sales.orders (committed at version 4797) "
        "that this transaction read. The concurrent operation modified the same rows that this "
        "transaction read. Please retry the operation. SQLSTATE: 2D521",
    ),
    SampleMessage(
        "delta-rs",
        "delta-rs 1.x",
        "_internal.CommitFailedError: Failed to commit transaction: Commit failed: a concurrent "
        "transactions added new data.\nHelp: This transaction's query must be rerun to include the "
        "new data. Also, if you don't care to require this check to pass in the future, the "
        "isolation level can be set to Snapshot Isolation.",
    ),
    SampleMessage(
        "pyspark",
        "wrapped by PySpark",
        "Traceback (most recent call last):\n"
        '  File "/opt/jobs/upsert.py", line 41, in <module>\n    .execute()\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o204.execute.\n"
        ": io.delta.exceptions.ConcurrentDeleteDeleteException: This transaction attempted to delete "
        "one or more files that were deleted (for example part-00017-1f0c8a52.snappy.parquet in "
        "partition [order_date=2026-11-19]) by a concurrent update. Please try the operation again.\n"
        f"{_COMMIT}\n"
        "\tat org.apache.spark.sql.delta.ConflictChecker.checkForDeletedFilesAgainstCurrentTxn"
        "DeletedFiles(ConflictChecker.scala:398)",
    ),
)


@dataclass(frozen=True, slots=True)
class ReportAdvice:
    """A remedy with its record, and its page."""

    action: str
    reason: str
    note: str = ""
    link: str = ""
    link_words: str = ""


@login_required
def explain(request: HttpRequest) -> HttpResponse:
    """Explain an error; the POST changes nothing unless it asks to record the conflict."""
    sample = request.GET.get("sample", "")
    text = request.POST.get("text", "") or sample_text(sample, request.user)
    context: dict[str, Any] = {
        "text": text,
        "samples": SAMPLES,
        "sample": sample,
        "characters": len(text),
        "lines": len(text.splitlines()),
        "act": {"address": "/api/v1/conflicts/explain/", "body": {"text": text or SAMPLES[1].text}},
    }
    if not text and request.method != "POST":
        context["nothing_here"] = sample == HERE
        return render(request, "conflicts/explain.html", context)
    chosen = _find_chosen_table(request)
    try:
        linked = explain_report(text, visible_tables(request.user), chosen)
    except RequestError as error:
        return render(request, "conflicts/explain.html", context | {"error": error}, status=400)
    if request.POST.get("step") == "record":
        return _keep(request, linked)
    context |= {"chosen": chosen, "pieces": pieces_of(text, linked.report.marks)}
    return render(request, "conflicts/explain.html", context | _report_context(request, linked))


def _report_context(request: HttpRequest, linked: LinkedReport) -> dict[str, Any]:
    reported, pair = linked.report.conflict, pair_history(linked)
    return {
        "linked": linked,
        "found": reported,
        "exception_names": [guide.name for guide in GUIDES],
        "verdict": verdict_of(linked),
        "facts": fact_lines(linked),
        "missing": list_missing_facts(linked).items() if reported else (),
        "pair": pair,
        "advice": _advice(linked, pair),
        "operations": OPERATIONS,
        "guess": _guess(linked),
        "may_record": reported is not None and may(request.user, "write", linked.table),
        "report_body": {
            "text": "…",
            "table": linked.table.name if linked.table else "",
            "record": True,
        },
    }


def _guess(linked: LinkedReport) -> int | None:
    """Guess a missing read version: at the latest, the one before the winning commit."""
    version = linked.winning_version
    return version - 1 if version else None


def _advice(linked: LinkedReport, pair: PairHistory | None) -> list[ReportAdvice]:
    reported = linked.report.conflict
    if reported is None:
        return []
    return [_build_advice(remedy, linked, pair) for remedy in reported.remedies]


def _build_advice(remedy: Remedy, linked: LinkedReport, pair: PairHistory | None) -> ReportAdvice:
    note = link = words = ""
    if remedy.kind in _RETRIES and pair is not None and pair.aborted_lately:
        note = (
            f"This pair was aborted {_count_times(pair.aborted_lately)} here in 24 h, so it will "
            "happen again."
        )
    if remedy.kind in _OF_ELIGIBILITY and linked.table is not None:
        link = reverse("table-eligibility", args=[linked.table.pk])
        note, words = _row_level_note(linked.table, pair), "See the cost"
    return ReportAdvice(remedy.action, remedy.reason, note, link, words)


def _row_level_note(table: Table, pair: PairHistory | None) -> str:
    if pair is None or not pair.aborted:
        return f"Rewrites {units.format_bytes(table.size_bytes)} if the layout must change."
    unknown = f"; {pair.undecidable} undecidable from the records" if pair.undecidable else ""
    aborted = units.format_count(pair.aborted)
    return f"30 days: {pair.passes} of {aborted} aborted writes of this pair would have passed{unknown}."


def _count_times(number: int) -> str:
    return "once" if number == 1 else f"{units.format_count(number)} times"


def _keep(request: HttpRequest, linked: LinkedReport) -> HttpResponse:
    if not may(request.user, "write", linked.table):
        messages.error(request, "You need the role operator to save a report.")
        return redirect("explain")
    read_version = request.POST.get("read_version", "").strip().removeprefix("v")
    kept = record_report(
        linked,
        request.user,  # type: ignore[arg-type]  # signed in
        read_version=_version(read_version),
        operation=request.POST.get("operation", "").strip().upper(),
    )
    if kept is None:
        messages.error(request, "The text contains no conflict to save.")
        return redirect("explain")
    messages.success(request, "Saved as a reported conflict.")
    return redirect("conflict", kept.pk)


def _version(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) < 17
    return int(text) if is_number and int(text) <= _MAX_VERSION else None


def _find_chosen_table(request: HttpRequest) -> Table | None:
    name = request.POST.get("table", "").strip()
    return visible_tables(request.user).filter(name=name).first() if name else None


@dataclass(frozen=True, slots=True)
class ReportPiece:
    """A part of the pasted text; `number` of its fact, 0 without one."""

    text: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class FactLine:
    """A fact under the number of its mark. `at` is set if it is a time."""

    fact: str
    label: str
    value: str
    note: str = ""
    at: datetime | None = None


def pieces_of(text: str, marks: tuple[FactMark, ...]) -> list[ReportPiece]:
    """Split the pasted text at its marks, without long stretches between them."""
    if not marks:
        return []
    start = _line_start(text, max(marks[0].start - _BEFORE, 0), marks[0].start)
    pieces = [ReportPiece("… ")] if start else []
    for mark in marks:
        pieces += (ReportPiece(_shorten_text(text[start : mark.start])), _mark_piece(text, mark))
        start = mark.end
    rest = text[start : start + _AFTER]
    pieces.append(
        ReportPiece(_strip_unprintable(rest) + (" …" if len(text) > start + _AFTER else ""))
    )
    return [piece for piece in pieces if piece.text]


def fact_lines(linked: LinkedReport) -> list[FactLine]:
    """Return the facts in the order of their marks."""
    reported = linked.report.conflict
    if reported is None:
        return []
    values = dict(_values(reported, linked))
    return [values[mark.fact] for mark in linked.report.marks if mark.fact in values]


def list_missing_facts(linked: LinkedReport) -> dict[str, str]:
    """List the facts missing from the message, of the winning commit and of this write."""
    told = {mark.fact for mark in linked.report.marks}
    winner = ", ".join(word for fact, word in _OF_WINNER.items() if fact not in told)
    own = (("current_operation", "operation"), ("read_version", "read version"), ("", "condition"))
    mine = ", ".join(word for fact, word in own if fact not in told)
    return {
        name: words
        for name, words in (("The winning commit", winner), ("This write", mine))
        if words
    }


def _values(reported: ReportedConflict, linked: LinkedReport) -> Iterator[tuple[str, FactLine]]:
    for fact, value, note in (
        *_iter_message_facts(reported, linked),
        *_iter_winner_facts(reported, linked),
    ):
        moment = utc_from_ms(int(value)) if fact == "winner_at" else None
        yield fact, FactLine(fact, LABELS[fact], value, note, moment)


def _iter_message_facts(
    reported: ReportedConflict, linked: LinkedReport
) -> Iterator[tuple[str, str, str]]:
    yield "exception", reported.code, f"SQLSTATE {reported.sqlstate}"
    yield "subclass", reported.subclass, SUBCLASS_MEANINGS.get(reported.subclass, "")
    yield "partitions", ", ".join(reported.partitions), ""
    yield "file", reported.file or "", ""
    yield "table", reported.table or "", "" if linked.table else "not registered here"
    yield "winning_version", str(linked.winning_version), _describe_match(linked)
    yield "winner_rows", f"{reported.winner_rows or 0:,}", ""
    yield "read_version", f"v{reported.read_version}", "the version it read"
    yield "current_operation", reported.current_operation or "", ""


def _iter_winner_facts(
    reported: ReportedConflict, linked: LinkedReport
) -> Iterator[tuple[str, str, str]]:
    yield "winner_operation", reported.winner_operation or "", ""
    winner = reported.winner
    if winner is None:
        return
    if winner.timestamp_ms is not None and _is_a_moment(winner.timestamp_ms):
        yield "winner_at", str(winner.timestamp_ms), ""
    condition = log_values.predicate({"predicate": winner.predicate})
    yield "winner_operation", reported.winner_operation or "", condition and f"where {condition}"
    yield "winner_user", winner.user or "", ""
    yield "winner_read_version", f"v{winner.read_version}", ""
    yield "isolation_level", winner.isolation_level or "", ""
    yield "is_blind_append", "yes" if winner.is_blind_append else "no", ""
    yield "winner_engine", winner.engine or "", ""
    yield "txn_id", winner.txn_id or "", _describe_match(linked) or "not in the mirror"


def _describe_match(linked: LinkedReport) -> str:
    return f"found by {linked.how}" if linked.how else ""


def _is_a_moment(epoch_ms: int) -> bool:
    return 0 < epoch_ms < 253_402_300_800_000  # before the year 10000


def _mark_piece(text: str, mark: FactMark) -> ReportPiece:
    return ReportPiece(_strip_unprintable(text[mark.start : mark.end]), mark.number)


def _line_start(text: str, earliest: int, before: int) -> int:
    """Return the first line start from a position on; the position itself if there is none."""
    at = text.find("\n", earliest, before) if earliest else -1
    return at + 1 if at >= 0 else earliest


def _shorten_text(text: str) -> str:
    if len(text) <= _BETWEEN:
        return _strip_unprintable(text)
    half = _BETWEEN // 2
    return f"{_strip_unprintable(text[:half])} … {_strip_unprintable(text[-half:])}"


def _strip_unprintable(text: str) -> str:
    """Remove characters that no screen can show."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n"))


def sample_text(key: str, person: Person) -> str:
    """Return the text of a sample; empty if there is none of that key."""
    if key == HERE:
        return _latest_conflict_sample(person)
    return next((sample.text for sample in SAMPLES if sample.key == key), "")


def _latest_conflict_sample(person: Person) -> str:
    """Return the latest recorded conflict in delta-spark's wording; empty if there is none."""
    aborted = visible_conflicts(person).filter(kind=Conflict.Kind.ABORTED, exception__in=_SENTENCES)
    for conflict in aborted.exclude(winning_version=None).order_by("-occurred_at", "-pk")[
        :_LOOKED_AT
    ]:
        commits = Commit.objects.filter(
            table=conflict.table_id, version=conflict.winning_version or 0
        )
        commit = commits.exclude(txn_id="").defer("raw").first()
        if commit is not None and commit.committed_at is not None:
            return _render_sample(conflict, commit)
    return ""


def _render_sample(conflict: Conflict, commit: Commit) -> str:
    where = (
        f"partition [{conflict.partitions[0]}]" if conflict.partitions else "the root of the table"
    )
    sentence = _SENTENCES[conflict.exception].format(where=where)
    info = {
        "timestamp": round(commit.committed_at.timestamp() * 1000) if commit.committed_at else None,
        "operation": commit.operation,
        "operationParameters": {"predicate": json.dumps([commit.predicate])}
        if commit.predicate
        else {},
        "readVersion": commit.read_version,
        "isolationLevel": commit.isolation_level or None,
        "isBlindAppend": commit.is_blind_append,
        "operationMetrics": commit.operation_metrics,
        "engineInfo": commit.engine_info,
        "txnId": commit.txn_id,
    }
    told = json.dumps({k: v for k, v in info.items() if v is not None}, separators=(",", ":"))
    return f"io.delta.exceptions.{conflict.exception}: {sentence}\nConflicting commit: {told}"
