"""What the checker says about two statements on a table like this one."""

from functools import lru_cache

from engine.conflicts.isolation import IsolationLevel
from engine.conflicts.matrix import Cell, conflict_matrix
from engine.conflicts.sketch import Setting
from lakeui.catalog.models import Table


def computed_matrix(table: Table, level: IsolationLevel | None = None) -> tuple[Cell, ...]:
    """Every pair of statements, computed for a table of this level, layout and features."""
    return _matrix(setting_of(table, level))


def setting_of(table: Table, level: IsolationLevel | None = None) -> Setting:
    """The kind of table this is, at its own level or another."""
    named = table.isolation_level or IsolationLevel.WRITE_SERIALIZABLE
    return Setting(
        level=level or IsolationLevel(named),
        vectors=table.deletion_vectors,
        partitioned=bool(table.partition_columns),
        row_tracking=table.row_tracking,
    )


@lru_cache(maxsize=32)
def _matrix(setting: Setting) -> tuple[Cell, ...]:
    return tuple(conflict_matrix(setting))
