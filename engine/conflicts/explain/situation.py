"""The known facts of a conflict when someone asks how to avoid it: both sides and the table.

Conflicts found by this engine are well known, those known only by a message much less. Unknown
facts rule no remedy out.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from engine.conflict_facts import ConflictFacts, Rule, Subclass
from engine.conflicts.candidates import reads_rows_of
from engine.conflicts.eligibility import UNKNOWN_TABLE, TableFacts
from engine.conflicts.overlap import UNTRACED, Overlap
from engine.conflicts.transaction_info import ReadPredicate
from engine.expressions.traits import columns_of, split_conjuncts
from engine.expressions.tree import Call, Column, Expression, Literal
from engine.vocabulary import Operation, StatementKind, operation_named

_ROWS_COMPARED = frozenset(
    {
        Subclass.ROW_LEVEL_CHANGES,
        Subclass.ALLOTTED_TIME_EXCEEDED,
        Subclass.CHANGE_TYPE_COLUMN,
        Subclass.PREDICATES_NEED_REWRITE,
    }
)
_READS_ALL = frozenset({Subclass.WHOLE_TABLE_READ, Subclass.EMPTY_READ_PREDICATES})
_NOT_OF_ROWS = frozenset(
    {Subclass.METADATA_CHANGE, Subclass.PROTOCOL_CHANGE, Subclass.WHOLE_TABLE_REPLACE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A conflict as far as it is known; unknown facts are None or empty.

    Attributes:
        rule: the check that found it; None if its code has no check.
        can_retry: whether the same command can succeed when it is run again.
        source_is_fixed: the rows of this write come from the version it read, and cannot change.
        creates_table: both sides wrote version 0.
        is_stream: this write was a streaming query.
        has_condition: whether its reads have conditions; False if it read every row.
        condition_columns: the columns in its conditions, in lower case.
        pinned_columns: those of them to which its conditions give values.
        partitions: the overlap of the two sides, as in `day=2026-11-02`.
        obstacle: the part of the command that prevents comparing rows.
        level_decides: the winning commit, a blind append, counts only at Serializable.
        reads_appended_rows: this write certainly reads rows of this append, so neither rows nor
            files could have resolved the conflict.
        ends_exemption: the winning commit may have read a blind append that now counts.
        is_untraced: the winning commit rewrote files, and the new positions of their rows are
            unknown.
        compares_rows: whether the engine of this write has row-level concurrency.
    """

    rule: Rule | None = None
    subclass: Subclass | None = None
    current_operation: str = ""
    winner_operation: str = ""
    can_retry: bool = True
    source_is_fixed: bool = False
    creates_table: bool = False
    is_stream: bool = False
    has_condition: bool | None = None
    condition_columns: frozenset[str] | None = None
    pinned_columns: frozenset[str] = frozenset()
    partitions: tuple[str, ...] = ()
    obstacle: str = ""
    level_decides: bool = False
    reads_appended_rows: bool = False
    ends_exemption: bool = False
    is_untraced: bool = False
    compares_rows: bool | None = None
    table: TableFacts = UNKNOWN_TABLE

    @property
    def current(self) -> Operation:
        """A noun phrase for this write, by its name."""
        return operation_named(self.current_operation)

    @property
    def winner(self) -> Operation:
        """A noun phrase for the winning commit, by its name."""
        return operation_named(self.winner_operation)

    @property
    def compactions(self) -> int:
        """The number of the two that are known to be compactions."""
        return sum(side.statement.moves_rows for side in (self.current, self.winner))

    @property
    def replaces_state(self) -> bool:
        """Whether this write sets the whole table, as RESTORE, CLONE and REPLACE do."""
        return self.current.replaces_state

    @property
    def both_replace(self) -> bool:
        """Whether both sides replace the table."""
        return self.current.replaces_table and self.winner.replaces_table

    @property
    def vectors(self) -> bool | None:
        """Whether deletion vectors are on. A sub-class about rows proves it."""
        return True if self.subclass in _ROWS_COMPARED else self.table.vectors

    @property
    def is_partitioned(self) -> bool | None:
        """Whether the table is partitioned; a message with partitions proves it."""
        hinted = self.subclass in (
            Subclass.WITH_PARTITION_HINT,
            Subclass.PARTITIONED_TABLE_WITHOUT_MERGE_SOURCE,
        )
        if self.partitions or hinted:
            return True
        columns = self.table.partition_columns
        return None if columns is None else bool(columns)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns of the table; empty if unknown."""
        return self.table.partition_columns or tuple(name for name, _ in self.partition_values)

    @property
    def partition_values(self) -> tuple[tuple[str, str], ...]:
        """Columns and values of the first partition both sides touch."""
        if not self.partitions:
            return ()
        pairs = re.findall(r"(\w{1,100})=([^,/]{1,100})", self.partitions[0])
        return tuple((name, value.strip()) for name, value in pairs)

    @property
    def reads_all(self) -> bool:
        """Whether this write is known to have read every row."""
        return self.subclass in _READS_ALL or self.has_condition is False

    @property
    def is_of_rows(self) -> bool:
        """Whether other rows or files on either side could have made a difference."""
        return not self.replaces_state and self.subclass not in _NOT_OF_ROWS

    @property
    def may_change_rows(self) -> bool:
        """Whether this write may be an UPDATE, DELETE or MERGE."""
        return not self.current_operation or self.current.changes_matches

    @property
    def may_take_a_condition(self) -> bool:
        """Whether a condition can be put to this write."""
        return self.may_change_rows or self.current.statement is StatementKind.INSERT

    @property
    def unpinned_columns(self) -> tuple[str, ...]:
        """The partition columns without a value in its conditions."""
        return tuple(
            name for name in self.partition_columns if name.lower() not in self.pinned_columns
        )


def situation_of(facts: ConflictFacts, overlap: Overlap) -> Situation:
    """Return the situation of a conflict found by this engine."""
    current = overlap.current
    reads = current.reads
    operation = facts.current.operation
    conditions = [read.condition for read in reads if read.condition is not None]
    is_narrowed = bool(reads) and len(conditions) == len(reads)
    named = {path[0].lower() for condition in conditions for path in columns_of(condition)}
    return Situation(
        rule=facts.rule,
        subclass=facts.subclass,
        current_operation=operation,
        winner_operation=facts.winner.operation,
        can_retry=facts.can_retry,
        source_is_fixed=current.source_is_fixed,
        creates_table=facts.read_version < 0,
        has_condition=_has_condition(reads, whole_table=current.read_whole_table),
        condition_columns=frozenset(named) if is_narrowed else None,
        pinned_columns=_common_pinned_columns(conditions, operation)
        if is_narrowed
        else frozenset(),
        partitions=facts.partitions,
        obstacle=current.rows.command_obstacle or "",
        level_decides=overlap.level_decides,
        reads_appended_rows=overlap.level_decides and reads_rows_of(current, overlap.winner),
        ends_exemption=any(file.role.startswith("added by version") for file in facts.files),
        is_untraced=facts.row_level == UNTRACED,
        compares_rows=True,
        table=current.rows.table,
    )


def _has_condition(reads: Sequence[ReadPredicate], *, whole_table: bool) -> bool | None:
    if whole_table:
        return False
    if not reads:
        return None
    return all(read.condition is not None for read in reads)


def _common_pinned_columns(conditions: Sequence[Expression], operation: str) -> frozenset[str]:
    """Return the columns that every condition gives a value.

    The bounds of a MERGE's source are conditions too: they are ranges and leave room for a literal.
    A bound written in a DELETE or an UPDATE is intentional and counts.
    """
    takes_bounds = operation != "MERGE"
    of_each = [frozenset(_iter_pinned_columns(condition, takes_bounds)) for condition in conditions]
    return reduce(frozenset.intersection, of_each)


def _iter_pinned_columns(condition: Expression, takes_bounds: bool) -> Iterator[str]:
    for part in split_conjuncts(condition):
        names = {path[0].lower() for path in columns_of(part)}
        if len(names) == 1 and (takes_bounds or _gives_values(part)):
            yield from names


def _gives_values(part: Expression) -> bool:
    """Return whether a part is `column = literal` or `column IN (literals)`."""
    if not isinstance(part, Call) or part.function not in ("=", "<=>", "in"):
        return False
    columns = [argument for argument in part.arguments if isinstance(argument, Column)]
    rest = [argument for argument in part.arguments if not isinstance(argument, Column)]
    return len(columns) == 1 and all(isinstance(argument, Literal) for argument in rest)
