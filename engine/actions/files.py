"""Actions on files, with the descriptor of a deletion vector.

Paths are as in the log: percent-encoded, relative to the table or absolute. Partition values are
the log's strings; null and "" both mean null.

Protocol: Add File and Remove File, Add CDC File, Deletion Vector Descriptor Schema.
"""

import msgspec

from engine.actions.integers import Long, Size


class DeletionVectorDescriptor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A deletion vector's location: `storage_type` u (relative), p (absolute) or i (inline)."""

    storage_type: str
    path_or_inline_dv: str
    size_in_bytes: Size
    cardinality: Size
    offset: Long | None = None

    def __post_init__(self) -> None:
        """Drop the offset of an inline vector: it has none, and two spellings would be two files."""
        if self.storage_type == "i" and self.offset is not None:
            msgspec.structs.force_setattr(self, "offset", None)

    @property
    def unique_id(self) -> str:
        """The vector's id; with the path, it identifies a logical file."""
        tail = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{tail}"


FileKey = tuple[str, str | None]
"""A logical file: its path and the unique id of its deletion vector."""


class AddFile(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False
):
    """A logical file of the table. `size` in bytes, `modification_time` in ms, `stats` as JSON text."""

    path: str
    partition_values: dict[str, str | None]
    size: Size
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    clustering_provider: str | None = None

    @property
    def key(self) -> FileKey:
        """Path and deletion vector id: two adds are the same logical file only if both agree."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None


class RemoveFile(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A tombstone. `partition_values` may be absent, meaning unknown."""

    path: str
    data_change: bool
    deletion_timestamp: Long | None = None
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Size | None = None
    stats: str | None = None
    tags: dict[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None

    @property
    def key(self) -> FileKey:
        """Path and deletion vector id."""
        return self.path, self.deletion_vector.unique_id if self.deletion_vector else None


class AddCDCFile(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A file of row changes of one version. `data_change` is always false."""

    path: str
    partition_values: dict[str, str | None]
    size: Size
    data_change: bool = False
    tags: dict[str, str | None] | None = None


def tombstone(add: AddFile) -> RemoveFile:
    """Build the `remove` of a live file with all its known facts; the commit sets the time."""
    return RemoveFile(
        path=add.path,
        data_change=True,
        extended_file_metadata=True,
        partition_values=add.partition_values,
        size=add.size,
        stats=add.stats,
        tags=add.tags,
        deletion_vector=add.deletion_vector,
        base_row_id=add.base_row_id,
        default_row_commit_version=add.default_row_commit_version,
    )
