"""The descriptor of a deletion vector (protocol: Deletion Vector Descriptor Schema)."""

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
