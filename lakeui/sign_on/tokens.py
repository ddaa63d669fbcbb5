"""The tokens that a person may list and revoke: their own, or everybody's for an administrator."""

from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from knox.models import get_token_model

from lakeui.catalog.access import may


def tokens_of(user: User) -> QuerySet[Any]:
    """Return a person's own tokens."""
    tokens: QuerySet[Any] = get_token_model().objects.filter(user=user)
    return tokens


def revocable_tokens(user: User) -> QuerySet[Any]:
    """Return the tokens that a person may revoke."""
    if not may(user, "admin"):
        return tokens_of(user)
    tokens: QuerySet[Any] = get_token_model().objects.all()
    return tokens
