"""Actions only found in checkpoints (protocol: V2 Checkpoint Metadata, Sidecar File)."""

import msgspec

from engine.actions.integers import Long, Size


class CheckpointMetadata(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True
):
    """The version a v2 checkpoint describes."""

    version: Long
    tags: dict[str, str | None] | None = None


class Sidecar(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A file of a v2 checkpoint's `add` and `remove` actions; `modification_time` in ms."""

    path: str
    size_in_bytes: Size
    modification_time: Long
    tags: dict[str, str | None] | None = None


class UnknownAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action of a name this engine does not know, kept as its JSON text.

    In a line with several it is the first.
    Readers skip these by protocol: changes they must understand have a feature.
    """

    name: str
    json: str
