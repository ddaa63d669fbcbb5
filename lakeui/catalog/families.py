"""The seven families of operations: an operation's effect, under any engine's name for it."""

from collections.abc import Mapping

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "delete": ("DELETE", "TRUNCATE"),
    "update": ("UPDATE",),
    "merge": ("MERGE",),
    "optimize": ("OPTIMIZE", "REORG", "COMPACT", "PURGE"),
    "vacuum": ("VACUUM",),
    "write": ("WRITE", "APPEND", "INSERT", "OVERWRITE", "STREAMING", "COPY", "RESTORE", "CLONE"),
    "meta": ("SET", "UNSET", "ALTER", "ADD", "DROP", "RENAME", "CHANGE", "UPGRADE", "CREATE"),
}
_FAMILY_OF_WORD = {word: family for family, words in FAMILIES.items() for word in words}


def family_of(operation: str) -> str:
    """Return the family of an operation's name or a job's kind; "other" if none fits."""
    words = operation.upper().replace("_", " ").split()
    if not words:
        return "other"
    if words[0] in {"CREATE", "REPLACE"} and "SELECT" in words:
        return "write"
    if words[:2] == ["STREAMING", "UPDATE"]:
        return "write"
    return _FAMILY_OF_WORD.get(words[0], "meta" if "TABLE" in words else "other")
