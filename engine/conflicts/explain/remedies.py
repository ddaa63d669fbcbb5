"""Remedies for conflicts: all of them, when each can help, and their texts.

This is their only home. Each remedy is tested against the known facts of a conflict before it is
shown. Serializable is none: it only adds conflicts. If it caused the abort, the other level is the
remedy, with its cost.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from engine.conflict_facts import Remedy, RemedyKind, Rule, Subclass
from engine.conflicts.explain.remedy_table import (
    ADD_CONDITION,
    ALONE_BESIDE_REPLACE,
    EXAMPLE_PARTITION,
    MERGE_PARTITION_REASON,
    ON_ROW_LEVEL_RUNTIME,
    ONE_SCHEDULE_IF_BOTH,
    TEXTS,
)
from engine.conflicts.explain.situation import Situation
from engine.conflicts.reads import READS_TARGET
from engine.schema.column_paths import column_path
from engine.vocabulary import Removes

OF_FILES = (
    RemedyKind.READ_AGAIN,
    RemedyKind.ALLOW_REORDERING,
    RemedyKind.QUIET_WINDOW,
    RemedyKind.ALONE,
    RemedyKind.ROW_TRACKING,
    RemedyKind.ONE_SCHEDULE,
    RemedyKind.MORE_TIME,
    RemedyKind.DIFFERENT_ROWS,
    RemedyKind.RENAME_COLUMN,
    RemedyKind.REWRITE_CONDITION,
    RemedyKind.ADD_CONDITION,
    RemedyKind.PARTITION_PREDICATE,
    RemedyKind.DELETION_VECTORS,
    RemedyKind.PLAIN_CONDITION,
    RemedyKind.SEPARATE_SOURCE,
    RemedyKind.IDENTITY,
    RemedyKind.CLUSTER_INSTEAD,
    RemedyKind.ROW_LEVEL_ENGINE,
    RemedyKind.SAME_ENGINES,
    RemedyKind.LAYOUT,
    RemedyKind.OFF_FRESH_DATA,
    RemedyKind.COMPACT_IN_QUIET,
)
"""Remedies for the three conflicts about files, best first."""
OF_NO_CHECK: Mapping[str, tuple[RemedyKind, ...]] = {
    "DELTA_MAX_COMMIT_RETRIES_EXCEEDED": (RemedyKind.FEWER_COMMITS,),
    "DELTA_CONCURRENT_WRITE": (RemedyKind.APART_IN_TIME,),
}
"""Remedies for codes without a check."""
_BEFORE_A_RETRY = (RemedyKind.CREATE_FIRST,)
_METADATA = frozenset({Rule.METADATA_CHANGED, Rule.PROTOCOL_CHANGED})


def remedies_for(kinds: Iterable[RemedyKind], situation: Situation) -> tuple[Remedy, ...]:
    """Return the applicable remedies of these kinds; if none, to run the two at different times."""
    fitting = [kind for kind in kinds if _FITS[kind](situation)]
    shown = fitting or [RemedyKind.APART_IN_TIME]
    return tuple(_remedy(kind, situation) for kind in shown)


def add_retry(remedies: tuple[Remedy, ...], situation: Situation) -> tuple[Remedy, ...]:
    """Add the retry, for conflicts known only by a message; first in order if it can succeed."""
    if not situation.can_retry:
        return remedies
    kind = RemedyKind.RESTART_STREAM if situation.is_stream else RemedyKind.RETRY
    first = tuple(remedy for remedy in remedies if remedy.kind in _BEFORE_A_RETRY)
    rest = tuple(remedy for remedy in remedies if remedy.kind not in _BEFORE_A_RETRY)
    return (*first, _remedy(kind, situation), *rest)


def _always(_situation: Situation) -> bool:
    return True


def _creates_table(situation: Situation) -> bool:
    empty = situation.subclass is Subclass.WRITE_TO_EMPTY_DIRECTORY
    return situation.creates_table or empty


def _identity(situation: Situation) -> bool:
    """Return whether an identity column causes the conflict."""
    if not situation.table.identity:
        return False
    if situation.rule is Rule.METADATA_CHANGED:
        winner = situation.winner
        changes_some = winner.changes_rows and not winner.replaces_state
        return changes_some or not situation.winner_operation
    return _compares_rows_of(situation)


def _quiet_window(situation: Situation) -> bool:
    if _creates_table(situation) or situation.both_replace:
        return False
    terms = situation.subclass in (Subclass.METADATA_CHANGE, Subclass.PROTOCOL_CHANGE)
    return terms or situation.rule in _METADATA


def _alone(situation: Situation) -> bool:
    if situation.replaces_state or situation.subclass is Subclass.WHOLE_TABLE_REPLACE:
        return True
    return situation.reads_all and not situation.may_take_a_condition


def _row_tracking(situation: Situation) -> bool:
    """Return whether row tracking would help: only row ids trace reordered or untagged rows."""
    if not _traces_could_help(situation) or situation.table.row_tracking:
        return False
    is_clustered = bool(situation.table.clustering_columns)
    return bool(situation.table.vectors) or (is_clustered and situation.vectors is False)


def _traces_could_help(situation: Situation) -> bool:
    """Return whether the rows of a compaction could be traced on another table.

    Operations that set the whole table are never traced, and tracing needs deletion vectors.
    """
    if not situation.is_of_rows or not situation.compactions or situation.table.iceberg:
        return False
    return not situation.winner.replaces_state


def _one_schedule(situation: Situation) -> bool:
    if situation.compactions == 2:
        return True
    one_unknown = not situation.current_operation or not situation.winner_operation
    either = not situation.current_operation or situation.current.statement.moves_rows
    other = not situation.winner_operation or situation.winner.statement.moves_rows
    removed = situation.rule is Rule.REMOVED_FILE_REMOVED
    return removed and one_unknown and either and other and not _is_settled_by_rows(situation)


def _add_condition(situation: Situation) -> bool:
    takes_one = situation.reads_all and situation.may_take_a_condition
    return takes_one and situation.is_of_rows and not situation.obstacle


def _partition_predicate(situation: Situation) -> bool:
    if not situation.is_partitioned or situation.reads_all or not situation.is_of_rows:
        return False
    is_known = bool(situation.partition_columns)
    return situation.may_take_a_condition and bool(situation.unpinned_columns or not is_known)


def _deletion_vectors(situation: Situation) -> bool:
    if situation.vectors or not situation.is_of_rows:
        return False
    if situation.compactions:
        return _traces_could_help(situation)
    return _compares_rows_of(situation) and not situation.is_partitioned


def _compares_rows_of(situation: Situation) -> bool:
    """Return whether comparing rows could resolve the conflict on an eligible table."""
    if situation.reads_appended_rows:
        return False
    of_rows = situation.is_of_rows and not _is_settled_by_rows(situation)
    changes = situation.may_take_a_condition and not situation.compactions
    reads_some = not situation.reads_all or bool(situation.obstacle)
    if situation.table.iceberg:
        return False
    removes_all = situation.winner.removes is Removes.ALL_ROWS
    return of_rows and changes and reads_some and not removes_all


def _is_settled_by_rows(situation: Situation) -> bool:
    return situation.subclass is Subclass.ROW_LEVEL_CHANGES


def _plain_condition(situation: Situation) -> bool:
    if not situation.obstacle or situation.obstacle == READS_TARGET:
        return False
    rows_decide = _compares_rows_of(situation) and not situation.is_partitioned
    return rows_decide or (situation.is_of_rows and situation.reads_all)


def _separate_source(situation: Situation) -> bool:
    from_target = situation.obstacle == READS_TARGET
    return from_target and _compares_rows_of(situation) and not situation.is_partitioned


def _cluster_instead(situation: Situation) -> bool:
    partitioned = bool(situation.is_partitioned) and not situation.table.clustering_columns
    return partitioned and _compares_rows_of(situation) and not situation.obstacle


def _row_level_engine(situation: Situation) -> bool:
    return situation.compares_rows is False and _compares_rows_of(situation)


def _same_engines(situation: Situation) -> bool:
    if not situation.is_untraced or not situation.table.vectors or situation.compactions:
        return False
    return situation.winner.changes_matches


def _layout(situation: Situation) -> bool:
    """Return whether the condition could skip files under another layout."""
    if situation.is_partitioned or situation.reads_all or situation.compactions:
        return False
    if situation.reads_appended_rows:
        return False
    clustered = [".".join(column_path(name)) for name in situation.table.clustering_columns or ()]
    if clustered:
        named = situation.condition_columns
        if named is None or any(column.lower() in named for column in clustered):
            return False
    reads = situation.has_condition is not None or situation.may_change_rows
    return situation.is_of_rows and reads and not _is_settled_by_rows(situation)


_FITS: Mapping[RemedyKind, Callable[[Situation], bool]] = {
    RemedyKind.CREATE_FIRST: _creates_table,
    RemedyKind.READ_AGAIN: lambda situation: situation.source_is_fixed,
    RemedyKind.RETRY: lambda situation: situation.can_retry and not situation.is_stream,
    RemedyKind.RESTART_STREAM: lambda situation: situation.can_retry and situation.is_stream,
    RemedyKind.FEWER_COMMITS: _always,
    RemedyKind.IDENTITY: _identity,
    RemedyKind.QUIET_WINDOW: _quiet_window,
    RemedyKind.ONE_WRITER: _always,
    RemedyKind.OWN_CHECKPOINT: _always,
    RemedyKind.ALONE: _alone,
    RemedyKind.ROW_TRACKING: _row_tracking,
    RemedyKind.ONE_SCHEDULE: _one_schedule,
    RemedyKind.MORE_TIME: lambda s: s.subclass is Subclass.ALLOTTED_TIME_EXCEEDED,
    RemedyKind.DIFFERENT_ROWS: lambda s: _is_settled_by_rows(s) and not s.level_decides,
    RemedyKind.RENAME_COLUMN: lambda s: s.subclass is Subclass.CHANGE_TYPE_COLUMN,
    RemedyKind.REWRITE_CONDITION: lambda s: s.subclass is Subclass.PREDICATES_NEED_REWRITE,
    RemedyKind.ADD_CONDITION: _add_condition,
    RemedyKind.PARTITION_PREDICATE: _partition_predicate,
    RemedyKind.DELETION_VECTORS: _deletion_vectors,
    RemedyKind.PLAIN_CONDITION: _plain_condition,
    RemedyKind.SEPARATE_SOURCE: _separate_source,
    RemedyKind.CLUSTER_INSTEAD: _cluster_instead,
    RemedyKind.ROW_LEVEL_ENGINE: _row_level_engine,
    RemedyKind.SAME_ENGINES: _same_engines,
    RemedyKind.LAYOUT: _layout,
    RemedyKind.ALLOW_REORDERING: lambda situation: situation.level_decides,
    RemedyKind.OFF_FRESH_DATA: lambda situation: situation.ends_exemption,
    RemedyKind.COMPACT_IN_QUIET: lambda situation: situation.compactions == 1,
    RemedyKind.APART_IN_TIME: _always,
}


@dataclass(frozen=True, slots=True)
class _Words:
    action: str
    reason: str


def _remedy(kind: RemedyKind, situation: Situation) -> Remedy:
    text, special = TEXTS[kind], _SPECIAL.get(kind)
    words = special(situation) if special is not None else None
    if words is None:
        return Remedy(text.action, text.reason, kind)
    return Remedy(words.action, words.reason, kind)


def _alone_words(situation: Situation) -> _Words | None:
    if situation.subclass is not Subclass.WHOLE_TABLE_REPLACE:
        return None
    return _Words(ALONE_BESIDE_REPLACE, TEXTS[RemedyKind.ALONE].reason)


def _schedule_words(situation: Situation) -> _Words | None:
    if situation.compactions == 2:
        return None
    return _Words(ONE_SCHEDULE_IF_BOTH, TEXTS[RemedyKind.ONE_SCHEDULE].reason)


def _condition_words(situation: Situation) -> _Words | None:
    words = ADD_CONDITION.get(situation.current_operation)
    if words is not None:
        return _Words(*words)
    if not situation.partition_columns:
        return None
    text = TEXTS[RemedyKind.ADD_CONDITION]
    return _Words(f"{text.action}, as in `{_partition_literals(situation)}`", text.reason)


def _partition_words(situation: Situation) -> _Words:
    text = TEXTS[RemedyKind.PARTITION_PREDICATE]
    action = text.action.replace(EXAMPLE_PARTITION, _partition_literals(situation))
    is_merge = situation.current_operation == "MERGE"
    return _Words(action, MERGE_PARTITION_REASON if is_merge else text.reason)


def _partition_literals(situation: Situation) -> str:
    """Render the partition columns without a value; a message's own values serve as an example.

    For conflicts found by this engine, those values are the overlap and are not suggested.
    """
    values = {} if situation.compares_rows else dict(situation.partition_values)
    columns = situation.unpinned_columns
    parts = (f"{name} = '{values.get(name, '…')}'" for name in columns)
    return " AND ".join(parts) or EXAMPLE_PARTITION


def _vectors_words(situation: Situation) -> _Words | None:
    if situation.compares_rows:
        return None
    text = TEXTS[RemedyKind.DELETION_VECTORS]
    return _Words(f"{text.action}{ON_ROW_LEVEL_RUNTIME}", text.reason)


def _plain_words(situation: Situation) -> _Words:
    text = TEXTS[RemedyKind.PLAIN_CONDITION]
    return _Words(
        text.action,
        f"The conflict is decided at file level because {situation.obstacle}. {text.reason}",
    )


_SPECIAL: Mapping[RemedyKind, Callable[[Situation], _Words | None]] = {
    RemedyKind.ALONE: _alone_words,
    RemedyKind.ONE_SCHEDULE: _schedule_words,
    RemedyKind.ADD_CONDITION: _condition_words,
    RemedyKind.PARTITION_PREDICATE: _partition_words,
    RemedyKind.DELETION_VECTORS: _vectors_words,
    RemedyKind.PLAIN_CONDITION: _plain_words,
}
"""The remedies whose texts depend on the conflict."""
