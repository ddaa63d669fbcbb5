"""The arithmetic of a conflict in words: each side's reads, removals, additions, the overlap."""

from collections.abc import Iterator

from engine.conflict_facts import Decision, Rule, SharedFile, SideChanges, SideReads
from lakeui.catalog.units import format_count
from lakeui.conflicts.models import Conflict

_FILES_TOLD = 3


def set_words(conflict: Conflict, decision: Decision | None) -> tuple[str, ...]:
    """Return sentences with the recorded numbers; none without a record."""
    if decision is None:
        return ()
    here, there = conflict.current_operation, conflict.winner_operation
    changes = decision.current_changes
    is_resolved = conflict.kind == Conflict.Kind.RESOLVED
    return (
        _read(here, conflict, decision),
        f"It {_describe_changes(changes)}." if is_resolved else f"It was to {_changes(changes)}.",
        f"v{conflict.winning_version} ({there}) {_describe_changes(decision.winner_changes)}.",
        *_iter_overlap_sentences(conflict, decision),
    )


def _read(operation: str, conflict: Conflict, decision: Decision) -> str:
    among = f" of the {format_count(decision.table_files)} in" if decision.table_files else " of"
    version = "the table" if conflict.read_version is None else f"v{conflict.read_version}"
    return f"This {operation} read {_reads(decision.reads, f'{among} {version}')}."


def _reads(reads: SideReads, of: str) -> str:
    if reads.whole_table:
        return "the whole table, so every change of it counts"
    if not (reads.files or reads.conditions):
        return "nothing of the table"
    by = f" by {_number(reads.conditions, 'condition')}" if reads.conditions else ""
    return f"{_number(reads.files, 'file')}{of}{by}"


def _changes(changes: SideChanges) -> str:
    """Describe an aborted write's staged changes, as an infinitive."""
    return _describe_side(changes, "change", "remove", "add")


def _describe_changes(changes: SideChanges) -> str:
    return _describe_side(changes, "changed", "removed", "added")


def _describe_side(changes: SideChanges, change: str, remove: str, add: str) -> str:
    whole = changes.files_changed - changes.files_masked
    parts = []
    if changes.files_masked:
        parts.append(f"{change} {_number(changes.files_masked, 'file')} by deletion vectors")
    if whole:
        parts.append(f"{remove} {_number(whole, 'file')}")
    rows = changes.rows_changed
    if parts and rows is not None:
        parts[-1] += f" ({_number(rows, 'row')} in all)"
    if changes.files_added:
        added = "" if changes.rows_added is None else f" ({_number(changes.rows_added, 'row')})"
        parts.append(f"{add} {_number(changes.files_added, 'file')}{added}")
    return " and ".join(parts) or f"{change} no file"


def _iter_overlap_sentences(conflict: Conflict, decision: Decision) -> Iterator[str]:
    shared = decision.shared_files
    count = max(conflict.file_count, len(shared))  # those whose rows were compared, too
    if not count and conflict.kind == Conflict.Kind.RESOLVED:
        yield f"No file is in both: v{conflict.winning_version} changed the table's definition alone."
        return
    if not count:
        yield "No file is in both: both changed the table's definition or its progress marks."
        return
    if conflict.decided_by is Rule.DATA_ADDED and not shared:
        yield f"It should have read {_number(count, 'file')} that v{conflict.winning_version} added."
    else:
        yield f"Both touched {_number(count, 'file')}."
    for file in shared[:_FILES_TOLD]:
        yield _describe_file(file, conflict)
    if len(shared) > _FILES_TOLD:
        others = _number(len(shared) - _FILES_TOLD, "more file")
        yield f"The table of files lists {others}."
    if not shared and conflict.kind == Conflict.Kind.ABORTED:
        yield "Rows were not compared: sharing a file decided."
    elif conflict.row_count and any(file.common_count for file in shared):
        yield f"So both touched {conflict.rows_text} in all."


def _describe_file(file: SharedFile, conflict: Conflict) -> str:
    """Describe each side's change of a file's rows, and how many are the same."""
    name = file.path.rpartition("/")[2]
    size = "" if file.file_row_count is None else f" of {_number(file.file_row_count, 'row')}"
    did = "reads" if file.did == "read" else "changes"
    took = "added" if conflict.decided_by is Rule.DATA_ADDED and file.did == "read" else "took"
    gone = (
        f"; {_number(file.gone_before_count, 'row')} had been deleted before either"
        if file.gone_before_count
        else ""
    )
    both = "none is" if not file.common_count else (
        f"{format_count(file.common_count)} {'is' if file.common_count == 1 else 'are'}"
    )  # fmt: skip
    return (
        f"In {name}{size} this {conflict.current_operation} {did} {format_count(file.current_count)}"
        f" and v{conflict.winning_version} {took} {format_count(file.winner_count)}{gone}:"
        f" {both} in both."
    )


def _number(count: int, noun: str) -> str:
    return f"{format_count(count)} {noun if count == 1 else f'{noun}s'}"
