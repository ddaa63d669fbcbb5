"""The row of the conflict matrix of a recorded operation."""

from engine.vocabulary import operation_named

INSERT, UPDATE, DELETE, MERGE = "INSERT", "UPDATE", "DELETE", "MERGE"
OPTIMIZE, ZORDER, DEFINITION = "OPTIMIZE", "OPTIMIZE ZORDER BY", "ALTER, SET"
OTHER = "other"
"""Operations that overwrite, restore or clean: they have no row or column of the matrix."""
KINDS = (INSERT, UPDATE, DELETE, MERGE, OPTIMIZE, ZORDER, DEFINITION)
_OF_STATEMENT = {"insert": INSERT, "stream": INSERT, "optimize zorder by": ZORDER, "create": OTHER}
_OF_FAMILY = {row.lower(): row for row in (UPDATE, DELETE, MERGE, OPTIMIZE)} | {"meta": DEFINITION}


def statement_kind(
    operation: str, *, is_blind_append: bool | None = None, z_order: str | None = None
) -> str:
    """Return the operation's row of the matrix; a write that read is no INSERT.

    `z_order` is the commit's `zOrderBy` as text. If blindness is not recorded, a write counts as an
    INSERT.
    """
    named = operation_named(operation, {"zOrderBy": z_order})
    row = _OF_STATEMENT.get(named.statement) or _OF_FAMILY.get(named.family, OTHER)
    return OTHER if row == INSERT and is_blind_append is False else row
