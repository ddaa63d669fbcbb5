"""Limits for untrusted Parquet files, and their error texts."""

_LARGE_BYTES = 1 << 30
_BYTES_A_ROW = 4
_MAX_RATIO = 1000


def is_inflated(row_count: int, size_bytes: int) -> bool:
    """Return whether a footer claims far more rows than its file's size allows."""
    decoded_bytes = row_count * _BYTES_A_ROW
    return decoded_bytes > _LARGE_BYTES and decoded_bytes > _MAX_RATIO * max(size_bytes, 1)


def reason_of(error: Exception) -> str:
    """Return a reader's error on a damaged file, as the end of a sentence."""
    return " ".join(str(error).split()).rstrip(".")[:500] or type(error).__name__
