"""CHECK constraints: properties of a table, enforced by writers."""

from collections.abc import Mapping
from dataclasses import dataclass

_PREFIX = "delta.constraints."


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    name: str
    condition: str


def check_constraints(properties: Mapping[str, object]) -> list[CheckConstraint]:
    """Return the CHECK constraints of a table, by name."""
    constraints = (
        CheckConstraint(key.removeprefix(_PREFIX), str(value))
        for key, value in properties.items()
        if key.startswith(_PREFIX)
    )
    return sorted(constraints, key=lambda constraint: constraint.name)
