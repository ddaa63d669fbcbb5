"""CHECK constraints: properties of a table, enforced by writers."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.protocol.properties import constraint_name


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    name: str
    condition: str


def check_constraints(properties: Mapping[str, object]) -> list[CheckConstraint]:
    """Return the CHECK constraints of a table, by name."""
    constraints = (
        CheckConstraint(name, str(value))
        for key, value in properties.items()
        if (name := constraint_name(key)) is not None
    )
    return sorted(constraints, key=lambda constraint: constraint.name)
