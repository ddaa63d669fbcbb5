"""The first steps on an installation: a table, a schedule, a colleague. Each is done once there is one."""

from dataclasses import dataclass
from enum import StrEnum

from django.contrib.auth.models import User
from django.db.models import Exists

from lakeui.catalog.access import may
from lakeui.catalog.models import Table
from lakeui.jobs.models import Schedule


class FirstStepKind(StrEnum):
    """The first steps, in order."""

    TABLE = "table"
    SCHEDULE = "schedule"
    INVITE = "invite"


@dataclass(frozen=True, slots=True)
class FirstStep:
    """A step, and whether it is done."""

    step: FirstStepKind
    done: bool


def first_steps(user: User) -> list[FirstStep]:
    """Return the steps until all are done; none afterwards, or for people who may not take them."""
    if not may(user, "maintain"):
        return []
    people = User.objects.filter(is_active=True)
    (done,) = people.filter(pk=user.pk).values_list(
        Exists(Table.objects.filter(version__isnull=False)),
        Exists(Schedule.objects.all()),
        Exists(people.exclude(pk=user.pk)),
    )
    steps = [FirstStep(step, is_done) for step, is_done in zip(FirstStepKind, done, strict=True)]
    return [] if all(done) else steps
