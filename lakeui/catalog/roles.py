"""The roles, in order: each includes the rights of those below it, except that only writers report.

A reporter sees nothing: programs report their conflicts with it, and it grants nothing else.
"""

from typing import Self

from django.db import models


class Role(models.IntegerChoices):
    """A role; its label is also the name of the Django group that grants it on every table."""

    REPORTER = 5, "reporter"
    VIEWER = 10, "viewer"
    OPERATOR = 20, "operator"
    MAINTAINER = 30, "maintainer"
    ADMIN = 40, "admin"

    @classmethod
    def from_label(cls, label: str) -> Self | None:
        """Return the role of a label, None if there is none."""
        return next((role for role in cls if role.label == label), None)


REPORTERS = (Role.REPORTER, Role.OPERATOR, Role.MAINTAINER, Role.ADMIN)
"""Who may report conflicts of programs: reporters, and whoever may write."""
