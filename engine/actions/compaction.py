"""Tags by which an order-preserving compaction makes rows of removed files traceable.

The tags are on the `remove`. Source row i, the k-th live row under the deletion vector the source
was read with, is row `offset + k` of the target.
"""

from typing import Self

import msgspec

from engine.actions.files import DeletionVectorDescriptor, RemoveFile

INTO_TAG = "compactedInto"
INFO_TAG = "compactionInfo"


class _Info(msgspec.Struct, frozen=True, rename="camel"):
    offset: int
    row_count: int
    deletion_vector: DeletionVectorDescriptor | None = None


class CompactionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The new position of a removed file's rows.

    `target` is the path of the new file as in the log, `offset` the target row of the source's
    first live row, `row_count` the source's physical rows, `deletion_vector` the one it was read
    with.
    """

    target: str
    offset: int
    row_count: int
    deletion_vector: DeletionVectorDescriptor | None = None

    @property
    def live_count(self) -> int:
        """The number of target rows from this source."""
        deleted = self.deletion_vector.cardinality if self.deletion_vector else 0
        return self.row_count - deleted

    def tags(self) -> dict[str, str | None]:
        """Return the tags of a `remove` that locate its rows."""
        info = _Info(self.offset, self.row_count, self.deletion_vector)
        return {INTO_TAG: self.target, INFO_TAG: msgspec.json.encode(info).decode()}

    @classmethod
    def from_remove(cls, remove: RemoveFile) -> Self | None:
        """Parse the tags of a `remove`; return None if they are absent or malformed."""
        tags = remove.tags or {}
        target, text = tags.get(INTO_TAG), tags.get(INFO_TAG)
        if not target or not text:
            return None
        try:
            info = msgspec.json.decode(text, type=_Info)
        except (msgspec.MsgspecError, RecursionError):
            return None
        if info.offset < 0 or info.row_count < 0:
            return None
        return cls(
            target=target,
            offset=info.offset,
            row_count=info.row_count,
            deletion_vector=info.deletion_vector,
        )
