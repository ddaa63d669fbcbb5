"""Numbers in sentences."""


def count_noun(count: int, noun: str) -> str:
    """Return a count with its noun: 1 file, 12,000 files."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
