"""What a transaction has read so far."""

from dataclasses import dataclass, field

from engine.conflicts.eligibility import table_eligibility
from engine.conflicts.layout import NO_LAYOUT, Layout
from engine.conflicts.transaction_info import ReadPredicate, RowScope
from engine.schema.column_mapping import physical_name
from engine.snapshot.snapshot import Snapshot
from engine.transaction.snapshot_rows import RowMatcher, RowTester


@dataclass(slots=True)
class ReadSet:
    """Reads gather here until the commit.

    `files` are the paths that conditions led to, `entirely` those of which every row counts as read.
    `obstacle` is the command's own reason for a decision at file level; `matcher` and `tester`
    compare rows where conditions alone do not decide.
    """

    predicates: list[ReadPredicate] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    entirely: set[str] = field(default_factory=set)
    whole_table: bool = False
    app_ids: set[str] = field(default_factory=set)
    obstacle: str | None = None
    matcher: RowMatcher | None = None
    tester: RowTester | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no data was read; application ids are no data."""
        return not (self.predicates or self.entirely or self.whole_table)

    def row_scope(self, snapshot: Snapshot | None) -> RowScope:
        """At which level conflicts are decided, known before any work."""
        if snapshot is None:
            return RowScope("it creates the table", traces_moves=False)
        table = table_eligibility(snapshot.metadata, snapshot.protocol, snapshot.clustering_columns)
        of_reads = next((r.row_obstacle for r in self.predicates if r.row_obstacle), None)
        of_command = of_reads or self.obstacle
        return RowScope(
            table.obstacle or of_command,
            table.traces_moves,
            table.traces_order,
            table.facts,
            of_command,
        )

    def layout(self, snapshot: Snapshot | None) -> Layout:
        """What the files are laid out by; how many there are only where a condition looked at them."""
        names = snapshot and (snapshot.partition_columns or snapshot.clustering_columns)
        if snapshot is None or not names:
            return NO_LAYOUT
        column = snapshot.schema.get(names[0])
        physical = None if column is None else physical_name(column, snapshot.mapping_mode)
        return Layout(
            column=names[0],
            physical_name=physical or "",
            is_partition=bool(snapshot.partition_columns),
            file_count=snapshot.file_count if self.predicates else None,
        )
