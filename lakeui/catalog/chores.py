"""A table's chores: compaction, clustering, purging, cleaning up, and whether each is due."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Q

from engine.commands.names import table_sql
from lakeui.catalog.file_layout import UnclusteredFiles
from lakeui.catalog.health import has_many_small_files, is_vacuum_due
from lakeui.catalog.models import Table

_MUCH_MARKED, _MUCH_UNCLUSTERED = 0.1, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """A chore; `count` of `of` are its targets; `statement` is its job.

    `of` is 0 if not recorded. `from_moment` is the earliest start, if it must wait.
    """

    name: str
    is_due: bool
    count: int
    of: int
    unit: str
    size_bytes: int | None = None
    from_moment: datetime | None = None
    statement: str = ""

    @property
    def share(self) -> float:
        """The share, in per cent."""
        return 100 * self.count / self.of if self.of else 0.0


def chores(table: Table, not_clustered: UnclusteredFiles | None) -> list[Chore]:
    """Return the chores of a table, due or not; none without anything to do."""
    needed = [*_compact(table), *_cluster(table, not_clustered), *_purge(table), *_vacuum(table)]
    return sorted(needed, key=lambda chore: not chore.is_due)


def _compact(table: Table) -> Iterator[Chore]:
    if table.small_file_count > 1:
        yield Chore(
            name="compact",
            is_due=_is_due(table, has_many_small_files(settings.ATTENTION_SMALL_FILES)),
            count=table.small_file_count,
            of=table.file_count,
            unit="files",
            size_bytes=settings.SMALL_FILE_BYTES,
            statement=f"OPTIMIZE {table_sql(table.name)}",
        )


def _cluster(table: Table, unclustered: UnclusteredFiles | None) -> Iterator[Chore]:
    if unclustered is not None and unclustered.files:
        yield Chore(
            name="cluster",
            is_due=unclustered.size_bytes > table.size_bytes * _MUCH_UNCLUSTERED,
            count=unclustered.files,
            of=table.live_files_mirrored,
            unit="files",
            size_bytes=unclustered.size_bytes,
            statement=f"OPTIMIZE {table_sql(table.name)}",
        )


def _purge(table: Table) -> Iterator[Chore]:
    if table.deleted_row_count:
        stored = 0 if table.row_count is None else table.row_count + table.deleted_row_count
        yield Chore(
            name="purge",
            is_due=bool(stored) and table.deleted_row_count > stored * _MUCH_MARKED,
            count=table.deleted_row_count,
            of=stored,
            unit="rows",
            statement=f"REORG TABLE {table_sql(table.name)} APPLY (PURGE)",
        )


def _vacuum(table: Table) -> Iterator[Chore]:
    if table.dead_file_count:
        yield Chore(
            name="vacuum",
            is_due=_is_due(table, is_vacuum_due()),
            count=table.dead_file_count,
            of=table.dead_file_count + table.file_count,
            unit="files",
            size_bytes=table.dead_bytes,
            from_moment=table.vacuum_from,
            statement=f"VACUUM {table_sql(table.name)}",
        )


def _is_due(table: Table, condition: Q) -> bool:
    """Judge a table by the condition of lists of tables."""
    return Table.objects.filter(condition, pk=table.pk).exists()
