"""Record of how a conflict was decided: each check's verdict and each side's changes.

Nothing here decides: it describes an existing outcome.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pyroaring import BitMap64

from engine.actions.codec import Action
from engine.actions.files import AddFile, RemoveFile
from engine.conflict_facts import (
    Decision,
    Rule,
    SideChanges,
    SideFile,
    SideReads,
    Verdict,
    WinnerVerdicts,
)
from engine.conflicts.candidates import is_exempt
from engine.conflicts.decide.checker import CHECKS, FILE_RULES, ConflictCheck
from engine.conflicts.decide.row_access import live_rows, physical_rows
from engine.conflicts.overlap import (
    FILES_ALONE,
    Overlap,
    PathChange,
    changes_of,
    is_rearrangement,
    rearranges,
)
from engine.conflicts.transaction_info import CurrentTransaction, LayoutColumn
from engine.errors import ConflictFacts

WINNERS_KEPT = 50


def append_verdicts(
    trail: tuple[WinnerVerdicts, ...], latest: WinnerVerdicts
) -> tuple[WinnerVerdicts, ...]:
    """Append the latest verdicts, keeping those on the last winning commits only."""
    return (*trail[1 - WINNERS_KEPT :], latest)


def decision_of(
    overlap: Overlap,
    facts: ConflictFacts,
    trail: Sequence[WinnerVerdicts],
    vectors: Mapping[str, BitMap64],
) -> Decision:
    """Return both sides in numbers and files, and the winning commits so far.

    `facts` are the findings at file or row level; `trail` ends with this winning commit; `vectors`
    are the deletion vectors this transaction has yet to write.
    """
    current, winner = overlap.current, overlap.winner
    paths = {file.path for file in facts.files}
    theirs: list[AddFile | RemoveFile] = [*winner.removes, *winner.adds]
    shared = tuple({action.path: action for action in theirs if action.path in paths}.values())
    layout = current.layout
    before = winner.version - current.read_version - len(trail)
    return Decision(
        reads=reads_made(current),
        current_changes=changes_made(current.actions, vectors),
        winner_changes=changes_made(winner.actions),
        winners=tuple(trail),
        winners_before=max(0, before),
        shared_files=overlap.evidence.compared,
        order_column=layout.column,
        table_files=layout.file_count,
        current_files=files_touched(current.actions, layout, shared, vectors, current.read_files),
        winner_files=files_touched(winner.actions, layout, shared),
        duration_ms=trail[-1].duration_ms if trail else None,
    )


_ROW_MAP = "row map"
_TERMS_RULES = frozenset({Rule.PROTOCOL_CHANGED, Rule.METADATA_CHANGED})


def pass_at_file_level(overlap: Overlap) -> WinnerVerdicts:
    """Build the verdicts on a winning commit without a conflict at file level."""
    verdicts = {check.rule: _nothing_found(overlap, check) for check in CHECKS}
    return _build_verdicts(overlap, verdicts, explain_enablement(overlap))


def explain_enablement(overlap: Overlap) -> str:
    """Return why a change of metadata or protocol let this transaction pass; "" if there was none."""
    features = ", ".join(overlap.enabled_features)
    return f"it only enabled {features}, which does not affect running writes" if features else ""


def pass_at_row_level(overlap: Overlap, how: str, duration_ms: int) -> WinnerVerdicts:
    """Build the verdicts on a winning commit with a conflict at file level only."""
    verdicts = {check.rule: _row_level_verdict(overlap, check) for check in CHECKS}
    return _build_verdicts(overlap, verdicts, how, duration_ms)


def stop_at_rule(overlap: Overlap, rule: Rule, duration_ms: int | None = None) -> WinnerVerdicts:
    """Build the verdicts on the winning commit whose conflict under this rule aborts this transaction."""
    verdicts: dict[Rule, Verdict] = {}
    for check in CHECKS:
        if Verdict.CONFLICT in verdicts.values():
            verdicts[check.rule] = Verdict.NOT_REACHED
        elif check.rule is rule:
            verdicts[check.rule] = Verdict.CONFLICT
        else:
            verdicts[check.rule] = _row_level_verdict(overlap, check)
    moved = is_rearrangement(overlap.winner) or rearranges(overlap.current)
    resolved = Verdict.RESOLVED in verdicts.values()
    return _build_verdicts(overlap, verdicts, _ROW_MAP if moved and resolved else "", duration_ms)


def _build_verdicts(
    overlap: Overlap, verdicts: dict[Rule, Verdict], how: str = "", duration_ms: int | None = None
) -> WinnerVerdicts:
    winner = overlap.winner
    return WinnerVerdicts(winner.version, winner.operation, verdicts, how, duration_ms)


def _row_level_verdict(overlap: Overlap, check: ConflictCheck) -> Verdict:
    """Return RESOLVED if files alone would find an overlap, else the file-level verdict."""
    if check.rule not in FILE_RULES or overlap.evidence is FILES_ALONE:
        return _nothing_found(overlap, check)
    if check.find(replace(overlap, evidence=FILES_ALONE)) is None:
        return _nothing_found(overlap, check)
    return Verdict.RESOLVED


def _nothing_found(overlap: Overlap, check: ConflictCheck) -> Verdict:
    """Return the verdict of a check without finding: nothing to examine, exempt, or passed."""
    if not check.looks_at(overlap.winner):
        return Verdict.NOTHING
    if check.rule in _TERMS_RULES and overlap.enabled_features:
        return Verdict.RESOLVED
    if check.rule is Rule.DATA_ADDED and is_exempt(overlap.current, overlap.winner):
        return Verdict.EXEMPT
    return Verdict.PASSES


FILES_DRAWN = 100
_NOTHING: Mapping[str, BitMap64] = {}


def changes_made(
    actions: Iterable[Action], vectors: Mapping[str, BitMap64] = _NOTHING
) -> SideChanges:
    """Summarize the changes of actions. `vectors` are the unwritten deletion vectors, by path."""
    changes = changes_of(actions).values()
    there = [change for change in changes if change.remove is not None]
    added = [change.add for change in changes if change.remove is None and change.add is not None]
    return SideChanges(
        files_changed=len(there),
        files_masked=sum(side.add is not None for side in there),
        files_added=len(added),
        rows_changed=_total(rows_changed(side, vectors) for side in there),
        rows_added=_total(live_rows(add) for add in added),
    )


def rows_changed(change: PathChange, vectors: Mapping[str, BitMap64] = _NOTHING) -> int | None:
    """Count the rows a commit deleted from a file; return None if the log does not say.

    For display only: a vector's own count is trusted.
    """
    before, after = change.remove, change.add
    if before is None:
        return 0
    if after is None:
        return live_rows(before)
    masked = vectors.get(change.path)
    gone = 0 if before.deletion_vector is None else before.deletion_vector.cardinality
    if masked is not None:
        return max(0, len(masked) - gone)
    now = 0 if after.deletion_vector is None else after.deletion_vector.cardinality
    return max(0, now - gone)


def files_touched(
    actions: Iterable[Action],
    layout: LayoutColumn,
    shared: Sequence[AddFile | RemoveFile] = (),
    vectors: Mapping[str, BitMap64] = _NOTHING,
    read_files: frozenset[str] = frozenset(),
) -> tuple[SideFile, ...]:
    """Return the files of one side in layout order, at most `FILES_DRAWN`.

    `shared` are the files both sides touched: they are always included, as read or matched if this
    side does not change them.
    """
    changes = changes_of(actions)
    paths = {action.path for action in shared}
    touched = [_side_file(change, layout, vectors) for change in changes.values()]
    drawn = [side_file for side_file in touched if side_file.path in paths]
    drawn += [
        SideFile(file.path, _read_or_matched(file.path in read_files), *layout.bounds(file))
        for file in shared
        if file.path not in changes
    ]
    others = sorted(
        (side_file for side_file in touched if side_file.path not in paths), key=_file_sort_key
    )
    left = max(0, FILES_DRAWN - len(drawn))
    return tuple(sorted([*drawn[:FILES_DRAWN], *spread(others, left)], key=_file_sort_key))


def reads_made(current: CurrentTransaction) -> SideReads:
    """Summarize the reads of a transaction."""
    return SideReads(
        conditions=len(current.reads),
        whole_table=current.read_whole_table,
        files=len(current.read_files),
        obstacle=current.rows.obstacle,
    )


def spread(values: Sequence[SideFile], count: int) -> Sequence[SideFile]:
    """Return at most `count` of the values, evenly spaced."""
    if len(values) <= count:
        return values
    return [values[place * len(values) // count] for place in range(count)]


def _side_file(
    change: PathChange, layout: LayoutColumn, vectors: Mapping[str, BitMap64]
) -> SideFile:
    actions = [action for action in (change.add, change.remove) if action is not None]
    bounds = next((b for b in map(layout.bounds, actions) if b[0] is not None), (None, None))
    if change.remove is None:
        rows = physical_rows(actions[0]) if actions else None
        return SideFile(change.path, "added", *bounds, rows)
    return SideFile(change.path, "changed", *bounds, rows_changed(change, vectors))


def _read_or_matched(was_read: bool) -> str:
    return "read" if was_read else "matched"


def _file_sort_key(file: SideFile) -> tuple[int, float, str, str]:
    """Return a sort key: numbers by size, then texts, then files without bounds."""
    if file.low is None:
        return 2, 0.0, "", file.path
    try:
        return 0, float(file.low), "", file.path
    except ValueError:
        return 1, 0.0, file.low, file.path


def _total(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
