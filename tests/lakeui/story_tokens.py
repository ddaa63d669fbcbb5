"""The tokens of the user on call: a pipeline's, and a notebook's that expires soon."""

from datetime import timedelta

from django.contrib.auth.models import User

from lakeui.api.models import ApiToken
from lakeui.catalog.roles import Role


def tell_tokens(owner: User) -> None:
    for name, role, days in (
        ("nightly-pipeline", Role.OPERATOR, 29),
        ("notebook of an analyst", Role.VIEWER, 3),
    ):
        ApiToken.objects.create(user=owner, name=name, role=role, expiry=timedelta(days=days))
