"""The seven checks that stand between a transaction and a lost update, in Delta's order.

A check looks at one winner and either finds where the two sides meet or finds nothing. It changes
nothing. Files decide by default, and that is always safe: `RowEvidence` can only take a file off
the table, with proof that its rows do not concern current (SEMANTICS: row-level concurrency).
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.actions.files import AddFile
from engine.conflicts.candidates import added_candidates, matching_reads
from engine.conflicts.explanation import Finding, explain
from engine.conflicts.isolation import ROW_TRACKING_DOMAIN
from engine.conflicts.meeting import Meeting
from engine.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConflictError,
    MetadataChangedException,
    ProtocolChangedException,
)


@dataclass(frozen=True, slots=True)
class Check:
    """One rule: its name, where it finds the two sides meeting, and what that raises."""

    name: str
    find: Callable[[Meeting], Finding | None]
    error: type[ConflictError]


def protocol_changed(meeting: Meeting) -> Finding | None:
    """The winner upgraded the protocol, dropped a feature, or created the table first."""
    if meeting.winner.protocol is None and meeting.current.read_version >= 0:
        return None
    return Finding()


def metadata_changed(meeting: Meeting) -> Finding | None:
    """The winner changed the schema, the properties, the partitioning or an identity mark."""
    return Finding() if meeting.winner.metadata is not None else None


def domain_written(meeting: Meeting) -> Finding | None:
    """Both wrote one metadata domain; row tracking's is reconciled instead.

    What sets the whole state of the table sets every domain, those that it leaves alone too.
    """
    theirs = {each.domain for each in meeting.winner.domains} - {ROW_TRACKING_DOMAIN}
    shared = theirs if meeting.current.replaces_state else meeting.current.domains & theirs
    return Finding(names=tuple(sorted(shared))) if shared else None


def application_committed(meeting: Meeting) -> Finding | None:
    """The winner committed for an application id that current reads or writes."""
    shared = meeting.current.app_ids & meeting.winner.app_ids
    return Finding(names=tuple(sorted(shared))) if shared else None


def data_added(meeting: Meeting) -> Finding | None:
    """A winner added files that may hold rows current should have read."""
    current, evidence = meeting.current, meeting.evidence
    candidates = added_candidates(current, meeting.winner, meeting.exempted)
    unread = [
        each
        for each in candidates
        if each.add.key not in evidence.cleared_adds and _should_be_read(meeting, each.add)
    ]
    return Finding(added=tuple(unread)) if unread else None


def read_file_removed(meeting: Meeting) -> Finding | None:
    """The winner removed or rewrote a file that current read."""
    current = meeting.current
    reads_all = current.read_whole_table or current.replaces_state
    removed = [
        each for each in meeting.unsettled_removes if reads_all or each.path in current.read_files
    ]
    return Finding(removed=tuple(removed)) if removed else None


def removed_file_removed(meeting: Meeting) -> Finding | None:
    """Both removed one file."""
    ours = {each.path for each in meeting.current.removes}
    removed = [each for each in meeting.unsettled_removes if each.path in ours]
    return Finding(removed=tuple(removed)) if removed else None


CHECKS: tuple[Check, ...] = (
    Check("protocol_changed", protocol_changed, ProtocolChangedException),
    Check("metadata_changed", metadata_changed, MetadataChangedException),
    Check("domain_written", domain_written, ConcurrentTransactionException),
    Check("application_committed", application_committed, ConcurrentTransactionException),
    Check("data_added", data_added, ConcurrentAppendException),
    Check("read_file_removed", read_file_removed, ConcurrentDeleteReadException),
    Check("removed_file_removed", removed_file_removed, ConcurrentDeleteDeleteException),
)
FILE_RULES = frozenset(check.name for check in CHECKS[4:])
"""The rules about files, which rows may settle."""


def find_conflict(meeting: Meeting, checks: tuple[Check, ...] = CHECKS) -> ConflictError | None:
    """The first check that finds the two sides meeting, as the error it raises; None if none."""
    for check in checks:
        finding = check.find(meeting)
        if finding is not None:
            return check.error(explain(meeting, check.name, finding))
    return None


def check_conflicts(meeting: Meeting, checks: tuple[Check, ...] = CHECKS) -> None:
    """Let current pass this winner, or stop it.

    Raises:
        ConflictError: the exception of the first check that finds the two sides meeting.
    """
    conflict = find_conflict(meeting, checks)
    if conflict is not None:
        raise conflict


def _should_be_read(meeting: Meeting, add: AddFile) -> bool:
    current = meeting.current
    reads_all = current.read_whole_table or current.replaces_state
    return reads_all or bool(matching_reads(current, add))
