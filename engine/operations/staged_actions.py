"""What operations stage of a live file: that it goes, or another deletion vector of it."""

from collections.abc import Mapping

import msgspec

from engine.actions.deletion_vector import DeletionVectorDescriptor
from engine.actions.files import AddFile, RemoveFile, tombstone


def removal(
    add: AddFile, *, data_change: bool = True, tags: Mapping[str, str | None] | None = None
) -> RemoveFile:
    """The tombstone of a live file; the commit gives it its time."""
    removed_file = tombstone(add)
    return msgspec.structs.replace(
        removed_file, data_change=data_change, tags=dict(tags) if tags else removed_file.tags
    )


def replace_vector(add: AddFile, vector: DeletionVectorDescriptor, stats: str | None) -> AddFile:
    """The add of a file with another deletion vector and the statistics that go with it."""
    return msgspec.structs.replace(add, deletion_vector=vector, stats=stats, data_change=True)
