"""A conflict in words: what happened, between whom, and what would have avoided it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.actions.files import AddFile, RemoveFile
from engine.conflicts.candidates import Candidate
from engine.conflicts.meeting import Meeting
from engine.conflicts.remedies import remedies_for
from engine.errors import ConflictFacts, ConflictFile

FILES_SHOWN = 100
PARTITIONS_SHOWN = 10

WITHOUT_HINT = "WITHOUT_HINT"
WITH_PARTITION_HINT = "WITH_PARTITION_HINT"
ROW_LEVEL_CHANGES = "ROW_LEVEL_CHANGES"
WHOLE_TABLE_READ = "WHOLE_TABLE_READ"
EMPTY_READ_PREDICATES = "EMPTY_READ_PREDICATES"
ALLOTTED_TIME_EXCEEDED = "ALLOTTED_TIME_EXCEEDED"


@dataclass(frozen=True, slots=True)
class Finding:
    """Where a check found the two sides meeting: files, or names of applications or domains."""

    added: tuple[Candidate, ...] = ()
    removed: tuple[RemoveFile, ...] = ()
    names: tuple[str, ...] = ()


def explain(meeting: Meeting, rule: str, finding: Finding) -> ConflictFacts:
    """Everything a person needs to see why current lost to this winner by this rule."""
    files = tuple(_files(meeting, finding))
    facts = ConflictFacts(
        table=meeting.current.table,
        read_version=meeting.current.read_version,
        attempted_version=meeting.attempted_version or meeting.winner.version,
        rule=rule,
        subclass=_subclass(meeting, finding),
        current=meeting.current.side,
        winner=meeting.winner.side,
        files=files[:FILES_SHOWN],
        file_count=len(files),
        partitions=_partitions(files),
        can_retry=can_retry(meeting, rule),
        row_level=meeting.evidence.note,
    )
    return replace(
        facts,
        what=_sentence(meeting, facts, finding),
        remedies=remedies_for(facts, meeting.current),
    )


def can_retry(meeting: Meeting, rule: str) -> bool:
    """Whether the same command, run again on the latest version, can succeed.

    Not where the winner created the table that current wanted to create, and not where two
    queries share an application id: the next attempt meets the other query again.
    """
    if rule == "application_committed":
        return False
    return not (rule == "protocol_changed" and meeting.current.read_version < 0)


def _files(meeting: Meeting, finding: Finding) -> Iterable[ConflictFile]:
    rows = meeting.evidence.matched_rows
    again = {add.path for add in meeting.winner.adds}
    for each in finding.added:
        role = (
            "added"
            if each.version == meeting.winner.version
            else f"added by version {each.version}"
        )
        yield _file(each.add, role, rows.get(each.add.path, ()))
    for removed in finding.removed:
        role = "rewritten" if removed.path in again else "removed"
        yield _file(removed, role, rows.get(removed.path, ()))


def _file(file: AddFile | RemoveFile, role: str, rows: tuple[int, ...]) -> ConflictFile:
    return ConflictFile(
        path=file.path,
        partition_values=dict(file.partition_values or {}),
        role=role,
        rows=rows[:FILES_SHOWN],
        row_count=len(rows) or None,
    )


def _partitions(files: tuple[ConflictFile, ...]) -> tuple[str, ...]:
    named = {
        "/".join(f"{name}={_shown(value)}" for name, value in file.partition_values.items())
        for file in files
        if file.partition_values
    }
    return tuple(sorted(named)[:PARTITIONS_SHOWN])


def _shown(value: str | None) -> str:
    return value if value else "null"


def _subclass(meeting: Meeting, finding: Finding) -> str:
    if not (finding.added or finding.removed):
        return WITHOUT_HINT
    reads_all = meeting.current.read_whole_table or meeting.current.replaces_state
    if reads_all and meeting.evidence.subclass != ALLOTTED_TIME_EXCEEDED:
        return WHOLE_TABLE_READ
    if meeting.evidence.subclass:
        return meeting.evidence.subclass
    if finding.added and any(read.condition is None for read in meeting.current.reads):
        return EMPTY_READ_PREDICATES
    partitioned = bool(meeting.current.partition_columns)
    known = any(each.add.partition_values for each in finding.added) or any(
        each.partition_values for each in finding.removed
    )
    return WITH_PARTITION_HINT if partitioned and known else WITHOUT_HINT


def _sentence(meeting: Meeting, facts: ConflictFacts, finding: Finding) -> str:
    winner = f"Version {meeting.winner.version} ({meeting.winner.operation}) of {facts.table}"
    current = f"this {meeting.current.operation}, reading version {facts.read_version},"
    if facts.read_version < 0:
        return (
            f"{winner} created the table while this {meeting.current.operation} was creating it:"
            " its directory was empty before."
        )
    names, where = _listed(finding.names), _where(facts)
    match facts.rule:
        case "protocol_changed" | "metadata_changed":
            what = facts.rule.removesuffix("_changed")
            did = f"changed the {what} of the table after {current} began"
        case "domain_written":
            did = f"wrote the metadata domain {names}, which {current} writes too"
        case "application_committed":
            did = f"committed for the application {names}, whose progress {current} depends on"
        case "data_added":
            did = f"{_added_words(meeting, finding)}{where} that {current} should have seen"
        case "read_file_removed":
            did = f"{_removed_words(meeting, finding)}{where} that {current} had read"
        case _:
            did = f"{_removed_words(meeting, finding)}{where} that {current} removes too"
    return f"{winner} {did.removesuffix(',')}."


def _added_words(meeting: Meeting, finding: Finding) -> str:
    count = _counted(len(finding.added), "file")
    earlier = {each.version for each in finding.added} - {meeting.winner.version}
    if earlier:
        versions = _listed(tuple(f"version {each}" for each in sorted(earlier)))
        return f"may have read what {versions} appended, so the order is settled: there are {count}"
    return f"added {count}"


def _removed_words(meeting: Meeting, finding: Finding) -> str:
    again = {add.path for add in meeting.winner.adds}
    verb = "rewrote" if any(each.path in again for each in finding.removed) else "removed"
    return f"{verb} {_counted(len(finding.removed), 'file')}"


def _where(facts: ConflictFacts) -> str:
    """The partitions, or the rows where they are what the two sides meet at."""
    if facts.subclass == ROW_LEVEL_CHANGES:
        met = next((each for each in facts.files if each.row_count), None)
        if met is not None:
            rows = _listed(tuple(map(str, met.rows)))
            return f" ({'row' if len(met.rows) == 1 else 'rows'} {rows} of {met.path})"
    return f" in {_listed(facts.partitions)}" if facts.partitions else ""


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
