"""Stored state of the REST interface: tokens, and answers to repeat."""

import uuid

from django.conf import settings
from django.db import models
from knox.models import AbstractAuthToken

from lakeui.catalog.roles import Role


class ApiToken(AbstractAuthToken):
    """A bearer token: only its hash is kept, it always expires, `role` bounds its rights."""

    public_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100)
    role = models.PositiveSmallIntegerField(choices=Role.choices)

    class Meta:
        ordering = ["-created"]

    def __str__(self) -> str:
        return f"{self.name} ({self.get_role_display()}) of {self.user_id}"


class IdempotentAnswer(models.Model):
    """The first answer to a request with an Idempotency-Key.

    The row is created in the transaction of the request's own work: both exist, or neither.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    location = models.CharField(max_length=500, blank=True)
    body = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(fields=["user", "key"], name="one_answer_a_key"),
        ]

    def __str__(self) -> str:
        return self.key
