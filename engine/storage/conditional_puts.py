"""Test of conditional puts: a store must refuse the second put-if-absent of a name."""

import re
import uuid
from collections.abc import Callable
from contextlib import suppress

from engine.errors import FileExistsAlreadyError, StorageError

_COMMIT = re.compile(r"_delta_log/\d{20}\.json")
_proven: set[str] = set()


def is_commit(path: str) -> bool:
    """Return whether a file of the store is a version of the table."""
    return _COMMIT.fullmatch(path) is not None


def check_conditional_puts(
    place: str, put_if_absent: Callable[[str, bytes], None], delete: Callable[[str], None]
) -> None:
    """Check, once per place, that a second put-if-absent of a name is refused.

    Args:
        place: the bucket and endpoint; the result holds for all tables there.
        put_if_absent: the store's method.
        delete: the store's method; log cleanup removes leftovers.

    Raises:
        StorageError: it is not refused.
    """
    if place in _proven:
        return
    probe = f"_delta_log/.put_if_absent.{uuid.uuid4().hex}.tmp"
    put_if_absent(probe, b"first")
    try:
        put_if_absent(probe, b"second")
    except FileExistsAlreadyError:
        _proven.add(place)
        return
    finally:
        with suppress(StorageError):
            delete(probe)
    what = (
        f"{place} overwrites what it was told to write only if absent: of two writers that commit"
        " the same version one would be lost unseen. Nothing was written."
    )
    remedy = (
        "Keep the table in a store that honours If-None-Match. Where never more than one process"
        " writes, the storage option allow_unsafe_commits = true lets it."
    )
    raise StorageError(what, remedy)
