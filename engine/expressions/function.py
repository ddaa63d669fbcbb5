"""Function signatures: families of argument types, and the result type."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from engine.expressions.tree import VOID
from engine.expressions.types import FLOATS, INTEGRALS, is_complex, is_numeric
from engine.schema.types import (
    BINARY,
    BOOLEAN,
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    MapType,
)

Result: TypeAlias = Callable[[Sequence[DataType]], DataType | None]

_FAMILIES: dict[str, Callable[[DataType], bool]] = {
    "any": lambda _: True,
    "string": lambda t: t == STRING,
    "text": lambda t: t in {STRING, BINARY},
    "number": is_numeric,
    "integer": lambda t: t in INTEGRALS[:3],
    "long": lambda t: t in INTEGRALS,
    "float": lambda t: t in FLOATS,
    "long or float": lambda t: t in INTEGRALS or t in FLOATS,
    "boolean": lambda t: t == BOOLEAN,
    "time": lambda t: t in {DATE, TIMESTAMP, TIMESTAMP_NTZ},
    "timestamp": lambda t: t in {TIMESTAMP, TIMESTAMP_NTZ},
    "time or string": lambda t: t in {DATE, TIMESTAMP, TIMESTAMP_NTZ, STRING},
    "array": lambda t: isinstance(t, ArrayType),
    "map": lambda t: isinstance(t, MapType),
    "array or map": lambda t: isinstance(t, ArrayType | MapType),
    "struct, array or map": is_complex,
}


@dataclass(frozen=True, slots=True)
class Function:
    """The signature of a function.

    `parameters` are families of types; the last `optional` ones may be omitted, and with `repeats`
    the last may occur any number of times. `result` returns None for incompatible types.
    """

    name: str
    parameters: tuple[str, ...]
    result: Result
    optional: int = 0
    repeats: bool = False
    deterministic: bool = True

    def accepts_count(self, count: int) -> bool:
        """Return whether it accepts this number of arguments."""
        least = len(self.parameters) - self.optional
        return least <= count and (self.repeats or count <= len(self.parameters))

    def mismatch(self, types: Sequence[DataType]) -> tuple[int, str] | None:
        """Return the index of the first argument of a wrong type, and the expected family."""
        for index, type_ in enumerate(types):
            family = self.parameters[min(index, len(self.parameters) - 1)]
            if type_ != VOID and not _FAMILIES[family](type_):
                return index, family
        return None


def gives(data_type: DataType) -> Result:
    """Return a constant result type."""
    return lambda _: data_type
