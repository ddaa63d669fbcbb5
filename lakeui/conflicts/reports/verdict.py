"""The verdict on a reported conflict: the event, the rule, the reason, and whether a retry helps.

A pure function of the report and the mirror's facts. Facts missing from both are stated as unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.conflict_facts import Rule, Subclass
from engine.conflicts.decide.checker import CHECK_OF, CHECKS, FILE_RULES, RULE_OF_CODE
from lakeui.catalog.models import Commit, Table
from lakeui.conflicts.reports.links import LinkedReport
from lakeui.conflicts.reports.messages import ReportedConflict
from lakeui.conflicts.reports.signs import FILES_ALONE

_RULES = tuple(check.rule for check in CHECKS)
_HEADLINES = {  # for codes without a check
    "DELTA_CONCURRENT_WRITE": "Another write committed first",
    "DELTA_MAX_COMMIT_RETRIES_EXCEEDED": "Every version the commit tried was taken",
}
_DID = {  # the winning commit's change: before and after the table's name
    "DELTA_CONCURRENT_APPEND": ("added {files} to", "after your write had read {there}"),
    "DELTA_CONCURRENT_DELETE_READ": ("removed or rewrote files of", "that your write had read"),
    "DELTA_CONCURRENT_DELETE_DELETE": ("removed files of", "that your write removes too"),
    "DELTA_METADATA_CHANGED": ("changed the metadata of", "after your write had read it"),
    "DELTA_PROTOCOL_CHANGED": ("changed the protocol of", "after your write had read it"),
    "DELTA_CONCURRENT_TRANSACTION": ("committed to", "under the application id that yours uses"),
}
_LANDED = ("landed in", "after your write had read it")
_WHY: Mapping[Rule, str] = {
    Rule.READ_FILE_REMOVED: "Removed files that a write has read conflict at every level.",
    Rule.REMOVED_FILE_REMOVED: "At every level, a file can be removed only once.",
    Rule.METADATA_CHANGED: "A metadata change aborts every write that started before it.",
    Rule.PROTOCOL_CHANGED: "A protocol change aborts every write that started before it.",
    Rule.APPLICATION_COMMITTED: "With one application id, each batch can be committed only once.",
}
_ALL_READ = ("the whole table", "this write had read all of it")
_DECIDED: Mapping[str, tuple[str, str]] = {  # by sub-class: the level, and why
    Subclass.ROW_LEVEL_CHANGES: (
        "rows",
        "the comparison showed that both writes changed the same rows",
    ),
    Subclass.ALLOTTED_TIME_EXCEEDED: (
        "files, not rows",
        "rows could not be compared within the time limit of a commit",
    ),
    Subclass.WHOLE_TABLE_READ: _ALL_READ,
    Subclass.EMPTY_READ_PREDICATES: _ALL_READ,
    Subclass.PREDICATES_NEED_REWRITE: (
        "files, not rows",
        "the condition could not be applied to single rows",
    ),
    Subclass.CHANGE_TYPE_COLUMN: (
        "files, not rows",
        "rows cannot be compared while a column is named _change_type",
    ),
    Subclass.PARTITIONED_TABLE_WITHOUT_MERGE_SOURCE: (
        "partition, not rows",
        "rows could not be compared on a partitioned table",
    ),
    Subclass.METADATA_CHANGE: ("the whole table", "the winning commit changed the metadata too"),
    Subclass.PROTOCOL_CHANGE: ("the whole table", "the winning commit changed the protocol too"),
    Subclass.WHOLE_TABLE_REPLACE: (
        "the whole table",
        "the winning commit replaced the whole table",
    ),
    Subclass.WRITE_TO_EMPTY_DIRECTORY: ("the whole table", "both writes tried to commit version 0"),
}
_ALL_CONCERNED = ("the whole table", "such a change affects every write to the table")
_NOT_BY_FILES: Mapping[str, tuple[str, str]] = {
    "DELTA_CONCURRENT_TRANSACTION": (
        "the application id",
        "with one id, each batch can be committed only once",
    ),
    "DELTA_CONCURRENT_WRITE": ("the log", "this writer accepts no commit after its read version"),
    "DELTA_MAX_COMMIT_RETRIES_EXCEEDED": ("the log", "each version that it tried was taken"),
}
_HINTS: Mapping[str, tuple[str, str]] = {  # where they overlap, not why files decided
    Subclass.WITH_PARTITION_HINT: ("partition, not rows", "the message names only partitions"),
    Subclass.WITHOUT_HINT: ("files, not rows", "the sub-class WITHOUT_HINT gives no reason"),
}
_INSERTED = ("numTargetRowsInserted", "numOutputRows")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportVerdict:
    """A verdict. `check` is the rule's position among the checks, from 1; None if there is none.

    The winning commit `did` something to the table, and `then` says why it matters. `ignored_rows`
    are the winning commit's new rows that a commit would have missed, if recorded.
    """

    headline: str
    did: str
    then: str
    ignored_rows: int | None
    rule: str
    check: int | None
    check_count: int
    why: str
    decided_by: str
    decided_why: str
    retry: str


def verdict_of(linked: LinkedReport) -> ReportVerdict | None:
    """Return the verdict on a report; None if it reports no conflict."""
    reported = linked.report.conflict
    if reported is None:
        return None
    rule = RULE_OF_CODE.get(reported.code)
    did, then = _DID.get(reported.code, _LANDED)
    if reported.subclass == Subclass.WRITE_TO_EMPTY_DIRECTORY:
        did, then = "created", "while your write was creating it"
    decided_by, decided_why = _explain_level(reported, rule, linked.table)
    return ReportVerdict(
        headline=_headline(reported, rule),
        did=did.format(files=_files(linked.commit)),
        then=then.format(there="that partition" if reported.partitions else "it"),
        ignored_rows=_new_rows(reported, linked.commit) if rule is Rule.DATA_ADDED else None,
        rule=rule or "",
        check=_RULES.index(rule) + 1 if rule else None,
        check_count=len(CHECKS),
        why=_why(linked, rule) if rule else "",
        decided_by=decided_by,
        decided_why=decided_why,
        retry=_retry(reported),
    )


def _headline(reported: ReportedConflict, rule: Rule | None) -> str:
    if reported.subclass == Subclass.ROW_LEVEL_CHANGES:
        return "Two writes changed the same rows"
    return CHECK_OF[rule].headline if rule is not None else _HEADLINES[reported.code]


def _files(commit: Commit | None) -> str:
    if commit is None or not commit.files_added:
        return "files"
    return f"{commit.files_added:,} {'file' if commit.files_added == 1 else 'files'}"


def _new_rows(reported: ReportedConflict, commit: Commit | None) -> int | None:
    if reported.winner_rows is not None:
        return reported.winner_rows
    metrics = commit.operation_metrics if commit is not None else {}
    counted = (str(metrics[name]) for name in _INSERTED if name in metrics)
    return next((int(text) for text in counted if text.isdecimal() and text != "0"), None)


def _why(linked: LinkedReport, rule: Rule) -> str:
    return _blindness(linked) if rule is Rule.DATA_ADDED else _WHY.get(rule, "")


def _blindness(linked: LinkedReport) -> str:
    winner = linked.report.conflict.winner if linked.report.conflict else None
    blind = winner.is_blind_append if winner is not None else None
    if blind is None and linked.commit is not None:
        blind = linked.commit.is_blind_append
    if blind is None:
        return (
            "It is not known whether the winning commit was a blind append, which conflicts "
            "only at Serializable."
        )
    if blind:
        return "The winning commit is a blind append, so its files conflict only at Serializable."
    return (
        "The winning commit is not a blind append, so its files also conflict at WriteSerializable."
    )


def _explain_level(
    reported: ReportedConflict, rule: Rule | None, table: Table | None
) -> tuple[str, str]:
    """Return the level of the decision, and why not a finer one."""
    if reported.subclass in _DECIDED:
        return _DECIDED[reported.subclass]
    if rule not in FILE_RULES:
        return _NOT_BY_FILES.get(reported.code, _ALL_CONCERNED)
    what, hint = _HINTS.get(reported.subclass, ("files, not rows", "the message gives no reason"))
    if reported.partitions:
        what = "partition, not rows"
    return what, _why_not_rows(reported, table) or hint


def _why_not_rows(reported: ReportedConflict, table: Table | None) -> str:
    """Return the reason from the mirror or the writer; empty without one."""
    if table is not None and table.version is not None and not table.row_level_eligible:
        return table.row_level_reason or "the table is not eligible for row-level concurrency"
    if reported.source in FILES_ALONE:
        return f"{reported.source} always compares files"
    return ""


def _retry(reported: ReportedConflict) -> str:
    if not reported.can_retry:
        return "Cannot succeed while both queries use the same checkpoint."
    if reported.code == "DELTA_MAX_COMMIT_RETRIES_EXCEEDED":
        return "Can succeed when fewer writers commit at the same time."
    if reported.stream is not None:
        return "Can succeed. The stream resumes from its checkpoint, and no row is lost."
    return "Can succeed. The new attempt reads the rows of the winning commit."
