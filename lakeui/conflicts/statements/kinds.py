"""The kinds of statement that the matrix tells apart, and which of them a recorded operation is."""

INSERT, UPDATE, DELETE, MERGE = "INSERT", "UPDATE", "DELETE", "MERGE"
OPTIMIZE, ZORDER, DEFINITION = "OPTIMIZE", "OPTIMIZE ZORDER BY", "ALTER, SET"
OTHER = "other"
"""What overwrites, restores or cleans: it has no row or column of the matrix."""
KINDS = (INSERT, UPDATE, DELETE, MERGE, OPTIMIZE, ZORDER, DEFINITION)

_WORDS = {
    INSERT: ("WRITE", "APPEND", "INSERT", "COPY"),
    UPDATE: ("UPDATE",),
    DELETE: ("DELETE", "TRUNCATE"),
    MERGE: ("MERGE",),
    OPTIMIZE: ("OPTIMIZE", "REORG", "COMPACT"),
    DEFINITION: ("SET", "UNSET", "ALTER", "ADD", "DROP", "RENAME", "CHANGE", "UPGRADE", "CLUSTER"),
}
_KIND_OF_WORD = {word: kind for kind, words in _WORDS.items() for word in words}
_NO_ORDER = frozenset({None, "", "[]", "null"})


def statement_kind(
    operation: str, *, is_blind_append: bool | None = None, z_order: str | None = None
) -> str:
    """The kind of an operation as a log or a conflict names it; a write that read is no INSERT.

    `z_order` is the commit's `zOrderBy` as text. Where blindness is not recorded a write counts as
    an INSERT.
    """
    words = operation.upper().replace("_", " ").split()
    if not words:
        return OTHER
    kind = INSERT if words[:2] == ["STREAMING", "UPDATE"] else _KIND_OF_WORD.get(words[0], OTHER)
    if kind == INSERT and is_blind_append is False:
        return OTHER
    ordered = kind == OPTIMIZE and (z_order not in _NO_ORDER or "ZORDER" in words)
    return ZORDER if ordered else kind
