"""Row sums of commands that rewrite rows, checked before the commit.

Rows are found in one pass and written in another, possibly by different evaluators. If the two
disagree on a row, it is lost or written twice. Rows of the files read are counted from the footers:
a false count in the log could hide a lost row.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from engine.actions.files import AddFile
from engine.commands.merge import NOT_MATCHED, AnalyzedClause
from engine.errors import EngineError
from engine.operations.rows.row_deletion import RowDeletion
from engine.snapshot.data_files import count_rows
from engine.snapshot.snapshot import Snapshot
from engine.spark.write.compaction import CompactedBin

_Counting: TypeAlias = Callable[[AddFile], int | None]


class RowSumError(EngineError, code="LAKE_ROW_SUM_BROKEN", sqlstate="XX000"):
    """A command would have lost rows or written some twice: its passes over them do not agree.

    An internal error: `counted` rows of one pass should be the `expected` of another.
    """

    def __init__(self, table: str, what: str, counted: int, expected: int) -> None:
        self.table, self.counted, self.expected = table, counted, expected
        super().__init__(
            f"The row counts of this command on {table} do not add up: {counted:,} {what}, "
            f"but there must be {expected:,}. Nothing was written.",
            "This is a bug in the engine. Report it with the statement and the table's version.",
        )


def check_rewritten(
    snapshot: Snapshot, gone: RowDeletion, written_rows: int, new_rows: int | None = None
) -> None:
    """Check that the written files hold exactly the remaining and the new rows.

    `gone` are the rows deleted from the files of the snapshot. `new_rows` counts new images and
    inserted rows; None if every deleted row has an image.

    Raises:
        RowSumError: they do not.
    """

    def count_expected(rows_of: _Counting) -> int | None:
        new = _count_gone_rows(gone, rows_of) if new_rows is None else new_rows
        stays = _total(
            None if (rows := rows_of(file.add)) is None else rows - file.total
            for file in gone.rewritten
        )
        return None if new is None or stays is None else stays + new

    _check(snapshot, "rows written", written_rows, count_expected)


def check_images(snapshot: Snapshot, gone: RowDeletion, images: int) -> None:
    """Check that every deleted row has a new image.

    Raises:
        RowSumError: one has none, or another row has one.
    """
    _check(snapshot, "new images", images, lambda rows_of: _count_gone_rows(gone, rows_of))


def check_moved(snapshot: Snapshot, files: Sequence[AddFile], written_rows: int) -> None:
    """Check that the written files hold every live row of the files they replace.

    Raises:
        RowSumError: they do not.
    """
    _check(snapshot, "rows written", written_rows, lambda rows_of: _live_rows(files, rows_of))


def check_compacted(snapshot: Snapshot, done: Iterable[CompactedBin]) -> None:
    """Check that each compacted file holds every live row of its sources.

    Raises:
        RowSumError: one does not.
    """
    for compacted in done:
        check_moved(snapshot, compacted.sources, compacted.rows)


def check_clauses(
    snapshot: Snapshot,
    clauses: Sequence[AnalyzedClause],
    by_clause: Mapping[int, int],
    gone: RowDeletion,
) -> None:
    """Check that the deleted target rows of a MERGE are exactly those its clauses reach.

    Raises:
        RowSumError: they are not.
    """
    reached = sum(
        count for number, count in by_clause.items() if clauses[number].when != NOT_MATCHED
    )
    _check(
        snapshot,
        "rows reached by clauses",
        reached,
        lambda rows_of: _count_gone_rows(gone, rows_of),
    )


def check_inserted(
    snapshot: Snapshot, clauses: Sequence[AnalyzedClause], inserted: int, unmatched: int
) -> None:
    """Check that a MERGE inserts at most the unmatched rows, and all of them if unconditional.

    Raises:
        RowSumError: it does not.
    """
    inserting = [clause for clause in clauses if clause.when == NOT_MATCHED]
    takes_all = any(clause.condition is None for clause in inserting)
    if inserted > unmatched or (takes_all and inserted != unmatched):
        raise RowSumError(snapshot.table_uri, "rows inserted", inserted, unmatched)


def _check(
    snapshot: Snapshot, what: str, counted: int, expected: Callable[[_Counting], int | None]
) -> None:
    proved = expected(lambda add: count_rows(snapshot.store, add.path, snapshot.allowed_roots))
    if counted != proved:
        raise RowSumError(snapshot.table_uri, what, counted, proved or 0)


def _count_gone_rows(gone: RowDeletion, rows_of: _Counting) -> int | None:
    whole = _live_rows(gone.whole, rows_of)
    parts = sum(file.deleted for file in (*gone.masked, *gone.rewritten))
    return None if whole is None else whole + parts


def _live_rows(files: Iterable[AddFile], rows_of: _Counting) -> int | None:
    return _total(_live(add, rows_of(add)) for add in files)


def _live(add: AddFile, rows: int | None) -> int | None:
    vector = add.deletion_vector
    return rows if rows is None or vector is None else rows - vector.cardinality


def _total(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if a count is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
