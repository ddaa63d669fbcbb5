"""A conflict in words: what happened, between which writes, and how to avoid it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.actions.files import AddFile, RemoveFile
from engine.conflict_facts import RemedyKind, Rule, Subclass
from engine.conflicts.candidates import Candidate
from engine.conflicts.explain.remedies import remedies_for
from engine.conflicts.explain.situation import situation_of
from engine.conflicts.overlap import MatchedRows, Overlap
from engine.errors import ConflictFacts, ConflictFile
from engine.vocabulary import StatementKind, operation_named
from engine.words import count_noun

FILES_SHOWN = 100
PARTITIONS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The overlap found by a check: files, or names of applications or domains."""

    added: tuple[Candidate, ...] = ()
    removed: tuple[RemoveFile, ...] = ()
    names: tuple[str, ...] = ()


def explain(
    overlap: Overlap, rule: Rule, finding: CheckFinding, deed: str, remedies: Iterable[RemedyKind]
) -> ConflictFacts:
    """Explain why a winning commit aborted this transaction by a rule.

    `deed` describes the winning commit's action: {current} is the aborted write; {added} and
    {removed} are numbers of files, {where} their partitions, {names} applications or domains.
    `remedies` are the possible remedies.
    """
    files = tuple(_files(overlap, finding))
    facts = ConflictFacts(
        table=overlap.current.table,
        read_version=overlap.current.read_version,
        attempted_version=overlap.attempted_version or overlap.winner.version,
        rule=rule,
        subclass=_subclass(overlap, rule, finding),
        current=overlap.current.side,
        winner=overlap.winner.side,
        files=files[:FILES_SHOWN],
        file_count=len(files),
        row_count=sum(file.row_count or 0 for file in files) or None,
        partitions=_partitions(files),
        can_retry=can_retry(overlap, rule),
        row_level=overlap.evidence.note,
    )
    return replace(
        facts,
        what=_sentence(overlap, facts, finding, deed),
        remedies=remedies_for(remedies, situation_of(facts, overlap)),
    )


def can_retry(overlap: Overlap, rule: Rule) -> bool:
    """Return whether the same command, run again on the latest version, can succeed.

    It cannot if the winning commit created the same table, if two queries share an application id
    (the next attempt conflicts with the second query again), or if its rows remain those of the
    aborted version.
    """
    if rule is Rule.APPLICATION_COMMITTED or overlap.current.source_is_fixed:
        return False
    creates = operation_named(overlap.current.operation).statement is StatementKind.CREATE
    return not (creates and overlap.current.read_version < 0)


def _files(overlap: Overlap, finding: CheckFinding) -> Iterable[ConflictFile]:
    rows = overlap.evidence.matched_rows
    again = {add.path for add in overlap.winner.adds}
    for candidate in finding.added:
        role = (
            "added"
            if candidate.version == overlap.winner.version
            else f"added by version {candidate.version}"
        )
        yield _file(candidate.add, role, rows.get(candidate.add.path))
    for removed in finding.removed:
        role = "rewritten" if removed.path in again else "removed"
        yield _file(removed, role, rows.get(removed.path))


def _file(file: AddFile | RemoveFile, role: str, rows: MatchedRows | None) -> ConflictFile:
    return ConflictFile(
        path=file.path,
        partition_values=dict(file.partition_values or {}),
        role=role,
        rows=rows.first if rows else (),
        row_count=rows.count if rows else None,
    )


def _partitions(files: tuple[ConflictFile, ...]) -> tuple[str, ...]:
    named = {
        "/".join(f"{name}={_display_value(value)}" for name, value in file.partition_values.items())
        for file in files
        if file.partition_values
    }
    return tuple(sorted(named)[:PARTITIONS_SHOWN])


def _display_value(value: str | None) -> str:
    return value if value else "null"


def _subclass(overlap: Overlap, rule: Rule, finding: CheckFinding) -> Subclass | None:
    if not (finding.added or finding.removed):
        creates = rule is Rule.PROTOCOL_CHANGED and overlap.both_create
        return Subclass.WRITE_TO_EMPTY_DIRECTORY if creates else None
    reads_all = overlap.current.read_whole_table or overlap.current.replaces_state
    if reads_all and overlap.evidence.subclass is not Subclass.ALLOTTED_TIME_EXCEEDED:
        return Subclass.WHOLE_TABLE_READ
    if overlap.evidence.subclass:
        return overlap.evidence.subclass
    if any(read.condition is None for read in overlap.current.reads):
        return Subclass.WHOLE_TABLE_READ if finding.added else Subclass.EMPTY_READ_PREDICATES
    partitioned = bool(overlap.current.partition_columns)
    has_values = any(candidate.add.partition_values for candidate in finding.added) or any(
        file.partition_values for file in finding.removed
    )
    return Subclass.WITH_PARTITION_HINT if partitioned and has_values else Subclass.WITHOUT_HINT


def _sentence(overlap: Overlap, facts: ConflictFacts, finding: CheckFinding, deed: str) -> str:
    winner = f"Version {overlap.winner.version} ({overlap.winner.operation}) of {facts.table}"
    if overlap.both_create:
        return (
            f"{winner} created the table while this {overlap.current.operation} was creating it:"
            " its directory was empty before."
        )
    if overlap.both_replace:
        return (
            f"{winner} replaced the table while this {overlap.current.operation} was replacing it."
        )
    did = deed.format(
        current=f"this {overlap.current.operation}, reading version {facts.read_version},",
        names=_join_names(finding.names),
        added=_describe_added(overlap, finding),
        removed=_describe_removed(overlap, finding),
        where=_describe_place(facts),
    )
    return f"{winner} {did.removesuffix(',')}."


def _describe_added(overlap: Overlap, finding: CheckFinding) -> str:
    count = count_noun(len(finding.added), "file")
    if overlap.level_decides:
        return f"is a blind append, which counts at Serializable: it added {count}"
    earlier = {candidate.version for candidate in finding.added} - {overlap.winner.version}
    if earlier:
        versions = _join_names(tuple(f"version {number}" for number in sorted(earlier)))
        return f"may have read what {versions} appended, so the order is fixed: there are {count}"
    return f"added {count}"


def _describe_removed(overlap: Overlap, finding: CheckFinding) -> str:
    again = {add.path for add in overlap.winner.adds}
    verb = "rewrote" if any(file.path in again for file in finding.removed) else "removed"
    return f"{verb} {count_noun(len(finding.removed), 'file')}"


def _describe_place(facts: ConflictFacts) -> str:
    """Describe the overlap: its rows for a row-level conflict, else its partitions."""
    if facts.subclass is Subclass.ROW_LEVEL_CHANGES:
        file = next((touched for touched in facts.files if touched.row_count), None)
        if file is not None:
            count = file.row_count or len(file.rows)
            rows = _join_names(tuple(map(str, file.rows)), count)
            return f" ({'row' if count == 1 else 'rows'} {rows} of {file.path})"
    return f" in {_join_names(facts.partitions)}" if facts.partitions else ""


def _join_names(names: tuple[str, ...], count: int | None = None) -> str:
    """Join the first three names and the number of others, of `count` or of those given."""
    shown, more = ", ".join(names[:3]), (count or len(names)) - min(3, len(names))
    return f"{shown} and {more:,} more" if more else shown
