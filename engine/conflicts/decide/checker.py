"""The conflict checks that prevent lost updates, in Delta's order.

A check examines one winning commit and returns the overlap of the two sides, or nothing. It changes
nothing. Files decide by default, which is always safe: `RowEvidence` can only exclude a file, with
proof that its rows do not concern this transaction (SEMANTICS: row-level concurrency).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.actions.files import AddFile
from engine.conflict_facts import Remedy, RemedyKind, Rule
from engine.conflicts.candidates import find_matching_reads, list_candidates
from engine.conflicts.explain.explanation import CheckFinding, explain
from engine.conflicts.explain.remedies import OF_FILES, OF_NO_CHECK, add_retry, remedies_for
from engine.conflicts.explain.situation import Situation
from engine.conflicts.isolation import ROW_TRACKING_DOMAIN
from engine.conflicts.overlap import Overlap
from engine.conflicts.transaction_info import WinningCommit
from engine.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConflictError,
    MetadataChangedException,
    ProtocolChangedException,
)
from engine.vocabulary import operation_named


@dataclass(frozen=True, slots=True)
class ConflictCheck:
    """One conflict rule: how it finds an overlap, the exception it raises, and its texts.

    `looks_at` returns the part of a winning commit the rule examines; if empty, nothing is found.
    `title` is the event in words, `headline` the page's heading, `short` a column's. `deed`
    describes the winning commit's action in a message, see `engine.conflicts.explain.explanation.explain`.
    `remedies` are the possible remedies, best first.
    """

    rule: Rule
    looks_at: Callable[[WinningCommit], object]
    find: Callable[[Overlap], CheckFinding | None]
    error: type[ConflictError]
    title: str
    headline: str
    short: str
    deed: str
    remedies: tuple[RemedyKind, ...]


def protocol_changed(overlap: Overlap) -> CheckFinding | None:
    """Find a change of the protocol, or a table that both sides created or replaced."""
    changed = overlap.winner.protocol is not None and not overlap.enabled_features
    return CheckFinding() if changed or overlap.both_create or overlap.both_replace else None


def metadata_changed(overlap: Overlap) -> CheckFinding | None:
    """Find a change of the schema, the properties, the partitioning or an identity mark."""
    changed = overlap.winner.metadata is not None and not overlap.enabled_features
    return CheckFinding() if changed else None


def domain_written(overlap: Overlap) -> CheckFinding | None:
    """Find a metadata domain written by both sides; row tracking's is reconciled instead.

    An operation that replaces the table's state sets every domain, including unchanged ones.
    """
    theirs = {domain.domain for domain in overlap.winner.domains} - {ROW_TRACKING_DOMAIN}
    shared = theirs if overlap.current.replaces_state else overlap.current.domains & theirs
    return CheckFinding(names=tuple(sorted(shared))) if shared else None


def application_committed(overlap: Overlap) -> CheckFinding | None:
    """Find an application id of the winning commit that this transaction reads or writes."""
    shared = overlap.current.app_ids & overlap.winner.app_ids
    return CheckFinding(names=tuple(sorted(shared))) if shared else None


def data_added(overlap: Overlap) -> CheckFinding | None:
    """Find added files that may hold rows this transaction should have read."""
    current, evidence = overlap.current, overlap.evidence
    candidates = list_candidates(current, overlap.winner, overlap.exempted)
    unread = [
        candidate
        for candidate in candidates
        if candidate.add.key not in evidence.cleared_adds
        and _should_be_read(overlap, candidate.add)
    ]
    return CheckFinding(added=tuple(unread)) if unread else None


def read_file_removed(overlap: Overlap) -> CheckFinding | None:
    """Find files read by this transaction and removed or rewritten by the winning commit."""
    current = overlap.current
    reads_all = current.read_whole_table or current.replaces_state
    removed = [
        remove
        for remove in overlap.unresolved_removes
        if reads_all or remove.path in current.read_files
    ]
    return CheckFinding(removed=tuple(removed)) if removed else None


def find_double_remove(overlap: Overlap) -> CheckFinding | None:
    """Find files removed by both commits."""
    ours = {remove.path for remove in overlap.current.removes}
    removed = [remove for remove in overlap.unresolved_removes if remove.path in ours]
    return CheckFinding(removed=tuple(removed)) if removed else None


CHECKS: tuple[ConflictCheck, ...] = (
    ConflictCheck(
        Rule.PROTOCOL_CHANGED,
        lambda winner: winner.protocol or operation_named(winner.operation).replaces_table,
        protocol_changed,
        ProtocolChangedException,
        title="The winning commit changed the protocol",
        headline="The protocol changed under a write",
        short="Protocol",
        deed="changed the protocol of the table after {current} began",
        remedies=(
            RemedyKind.READ_AGAIN,
            RemedyKind.CREATE_FIRST,
            RemedyKind.ALONE,
            RemedyKind.QUIET_WINDOW,
        ),
    ),
    ConflictCheck(
        Rule.METADATA_CHANGED,
        lambda winner: winner.metadata,
        metadata_changed,
        MetadataChangedException,
        title="The winning commit changed the metadata",
        headline="The table changed under a write",
        short="Metadata",
        deed="changed the metadata of the table after {current} began",
        remedies=(RemedyKind.READ_AGAIN, RemedyKind.IDENTITY, RemedyKind.QUIET_WINDOW),
    ),
    ConflictCheck(
        Rule.DOMAIN_WRITTEN,
        lambda winner: winner.domains,
        domain_written,
        ConcurrentTransactionException,
        title="Both wrote one metadata domain",
        headline="Two writers of one metadata domain",
        short="Domains",
        deed="wrote the metadata domain {names}, which {current} writes too",
        remedies=(RemedyKind.ONE_WRITER,),
    ),
    ConflictCheck(
        Rule.APPLICATION_COMMITTED,
        lambda winner: winner.app_ids,
        application_committed,
        ConcurrentTransactionException,
        title="Both used one application id",
        headline="Two writers under one application id",
        short="App transactions",
        deed="committed for the application {names}, whose progress {current} depends on",
        remedies=(RemedyKind.OWN_CHECKPOINT,),
    ),
    ConflictCheck(
        Rule.DATA_ADDED,
        lambda winner: winner.adds,
        data_added,
        ConcurrentAppendException,
        title="The winning commit added data that this write should have read",
        headline="New data that a write should have read",
        short="Added files",
        deed="{added}{where} that {current} should have seen",
        remedies=OF_FILES,
    ),
    ConflictCheck(
        Rule.READ_FILE_REMOVED,
        lambda winner: winner.removes,
        read_file_removed,
        ConcurrentDeleteReadException,
        title="The winning commit removed or rewrote files that this write read",
        headline="Files that a write had read were removed",
        short="Deleted files read",
        deed="{removed}{where} that {current} had read",
        remedies=OF_FILES,
    ),
    ConflictCheck(
        Rule.REMOVED_FILE_REMOVED,
        lambda winner: winner.removes,
        find_double_remove,
        ConcurrentDeleteDeleteException,
        title="Both delete the same files",
        headline="Two writes that delete the same files",
        short="Deleted files deleted",
        deed="{removed}{where} that {current} removes too",
        remedies=OF_FILES,
    ),
)
CHECK_OF: Mapping[Rule, ConflictCheck] = {check.rule: check for check in CHECKS}
RULE_OF_ERROR: Mapping[str, Rule] = {check.error.__name__: check.rule for check in CHECKS}
RULE_OF_CODE: Mapping[str, Rule] = {check.error.code: check.rule for check in CHECKS}
"""The most common rule of an exception or its code: for two with one code, the last."""
FILE_RULES = frozenset({Rule.DATA_ADDED, Rule.READ_FILE_REMOVED, Rule.REMOVED_FILE_REMOVED})
"""The rules about files, resolvable by rows."""


def find_conflict(
    overlap: Overlap, checks: tuple[ConflictCheck, ...] = CHECKS
) -> ConflictError | None:
    """Return the error of the first check to find an overlap; None if none does."""
    for check in checks:
        finding = check.find(overlap)
        if finding is not None:
            return check.error(explain(overlap, check.rule, finding, check.deed, check.remedies))
    return None


def remedies_of_report(code: str, situation: Situation) -> tuple[Remedy, ...]:
    """Return the remedies for a conflict known only by its message, best first, with the retry."""
    rule = RULE_OF_CODE.get(code)
    kinds = CHECK_OF[rule].remedies if rule is not None else OF_NO_CHECK.get(code, ())
    return add_retry(remedies_for(kinds, situation), situation)


def _should_be_read(overlap: Overlap, add: AddFile) -> bool:
    current = overlap.current
    reads_all = current.read_whole_table or current.replaces_state
    return reads_all or bool(find_matching_reads(current, add))
