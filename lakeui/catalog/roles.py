"""The roles, in order: each may do what those below it may, except that only writers report.

A reporter sees nothing: programs report their conflicts with it, and it opens nothing else.
"""

from typing import Self

from django.db import models


class Role(models.IntegerChoices):
    """A role's label is also the name of the Django group that gives it on every table."""

    REPORTER = 5, "reporter"
    VIEWER = 10, "viewer"
    OPERATOR = 20, "operator"
    MAINTAINER = 30, "maintainer"
    ADMIN = 40, "admin"

    @classmethod
    def from_label(cls, label: str) -> Self | None:
        """The role of that label, None if there is none."""
        return next((role for role in cls if role.label == label), None)


REPORTERS = (Role.REPORTER, Role.OPERATOR, Role.MAINTAINER, Role.ADMIN)
"""Who may report conflicts of programs: reporters, and whoever may write."""
