"""Actions operations stage for a live file: its removal, or another deletion vector."""

from collections.abc import Mapping

import msgspec

from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.actions.files import AddFile, RemoveFile, tombstone


def removal(
    add: AddFile, *, data_change: bool = True, tags: Mapping[str, str | None] | None = None
) -> RemoveFile:
    """Return the tombstone of a live file; the commit sets its time."""
    removed_file = tombstone(add)
    return msgspec.structs.replace(
        removed_file, data_change=data_change, tags=dict(tags) if tags else removed_file.tags
    )


def replace_vector(add: AddFile, vector: DeletionVectorDescriptor, stats: str | None) -> AddFile:
    """Return a file's add action with another deletion vector and matching statistics."""
    return msgspec.structs.replace(add, deletion_vector=vector, stats=stats, data_change=True)
