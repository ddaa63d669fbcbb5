"""Position of a stream in its source's log: JSON in a checkpoint, a number in a `txn` action."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import RequestError

MAX_INDEX = 1 << 23
_IS_COMMIT = MAX_INDEX
_VERSION_BITS = 24


@dataclass(frozen=True, slots=True)
class Position:
    """The next file to read.

    Attributes:
        version: the version of the source.
        index: the file's index among the files added by the version, or among the snapshot's files.
        initial: whether the files are those of the whole table at this version.
    """

    version: int
    index: int = 0
    initial: bool = False

    def to_number(self) -> int:
        """Encode the position as a number growing with the stream: version, initial or not, index.

        It fits the 63 bits of a `txn` action's version while the index is below `MAX_INDEX`.
        """
        part = self.index if self.initial else _IS_COMMIT + self.index
        return (self.version << _VERSION_BITS) + part

    @classmethod
    def from_number(cls, number: int) -> "Position":
        """Decode a position encoded by `to_number`."""
        version, part = number >> _VERSION_BITS, number & ((1 << _VERSION_BITS) - 1)
        return cls(version, part & (_IS_COMMIT - 1), initial=part < _IS_COMMIT)

    def to_json(self, table_id: str) -> dict[str, Any]:
        """Return the position as an offset for Spark's checkpoint."""
        return {
            "table": table_id,
            "version": self.version,
            "index": self.index,
            "initial": self.initial,
        }

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> "Position":
        """Parse an offset.

        Raises:
            RequestError: it is not an offset of this source.
        """
        version, index = offset.get("version"), offset.get("index")
        initial = offset.get("initial")
        if type(version) is int and type(index) is int and type(initial) is bool:
            return cls(version, index, initial)
        msg = f"{dict(offset)} is no offset of a Delta table's stream."
        raise RequestError(msg, "Use the checkpoint of this source.", field="checkpoint")
