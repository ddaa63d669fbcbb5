"""What an alert rule can watch for: the checks for people's attention, and sums of the last hour."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from django.db.models import TextChoices

from lakeui.monitoring.checks import AttentionCheck


class OwnCondition(TextChoices):
    """What is counted for alerts alone, or from another figure on than for people's attention."""

    ABORTED = "aborted", "Writes to a table were aborted"
    WASTED = "wasted", "Aborted writes wasted time"
    STREAM_STOPPED = "stream_stopped", "A stream stopped"
    MIRROR_QUIET = "mirror_quiet", "The mirror is behind"


Condition: TypeAlias = OwnCondition | AttentionCheck
CONDITIONS: Mapping[str, Condition] = {
    **{condition.value: condition for condition in OwnCondition},
    **{check.value: check for check in AttentionCheck if check.value not in OwnCondition.values},
}
"""Every condition by the value that rules keep, in the order in which it is offered."""


def condition_choices() -> list[tuple[str, str]]:
    """Values and labels, for models, forms and REST."""
    return [(value, str(condition.label)) for value, condition in CONDITIONS.items()]


@dataclass(frozen=True, slots=True)
class ConditionLimit:
    """The figure from which on a condition holds; a rule may set another."""

    default: int
    unit: str


LIMITS: Mapping[Condition, ConditionLimit] = {
    OwnCondition.ABORTED: ConditionLimit(10, "writes in an hour"),
    OwnCondition.WASTED: ConditionLimit(15, "minutes in an hour"),
    OwnCondition.MIRROR_QUIET: ConditionLimit(15, "minutes"),
}
"""Of the conditions that are not here, the check for attention has the figure."""
