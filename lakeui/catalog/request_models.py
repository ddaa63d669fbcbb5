"""Requests to workers: searches for tables with their results, and reads that people wait for.

They are not part of the mirror, because no log has them.
"""

import uuid

from django.conf import settings
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.db import models


class Discovery(models.Model):
    """A search for tables below a root, running while `finished_at` is null: see `discovery.py`.

    `cursor` is the last examined directory; a search continues after it.
    """

    root = models.CharField(max_length=2000)
    match = models.CharField(max_length=255, blank=True)  # a pattern of paths: sales/*; blank: all
    naming = models.CharField(max_length=255, default="{path}")
    every_hours = models.PositiveSmallIntegerField(null=True, blank=True)  # null: once
    registers = models.BooleanField(default=False)  # registers its results as `requested_by`
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    requested_at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True, blank=True)  # by its worker; null: no worker has it
    finished_at = models.DateTimeField(null=True, blank=True)
    is_complete = models.BooleanField(default=False)  # else stopped at a limit: can continue
    cursor = models.TextField(blank=True)
    examined = models.PositiveIntegerField(default=0)
    bound = models.PositiveIntegerField()  # directories to examine until it rests
    unreadable = models.PositiveIntegerField(default=0)
    problem = models.CharField(max_length=1000, blank=True)  # the latest one

    class Meta:
        ordering = ["-requested_at", "-id"]
        verbose_name_plural = "discoveries"

    def __str__(self) -> str:
        return self.root


class DiscoveredTable(models.Model):
    """A table found by a search, with its proposed name."""

    discovery = models.ForeignKey(Discovery, on_delete=models.CASCADE, related_name="tables")
    place = models.CharField(max_length=2000)
    name = models.CharField(max_length=255)

    class Meta:
        ordering = ["discovery", "id"]
        constraints = [
            models.UniqueConstraint(fields=["discovery", "place"], name="one_discovery_a_place")
        ]

    def __str__(self) -> str:
        return self.place


class UnregisteredTable(models.Model):
    """An unregistered table of a repeated search, kept from one round to the next."""

    discovery = models.ForeignKey(
        Discovery, on_delete=models.CASCADE, related_name="unregistered_tables"
    )
    place = models.CharField(max_length=2000)
    found_at = models.DateTimeField()  # first
    is_dismissed = models.BooleanField(default=False)  # it needs nobody's attention

    class Meta:
        ordering = ["discovery", "id"]
        constraints = [
            models.UniqueConstraint(fields=["discovery", "place"], name="one_unregistered_a_place")
        ]

    def __str__(self) -> str:
        return self.place


class RowRead(models.Model):
    """A read of rows for a person: waiting, or running on a worker; deleted at its end.

    Its key is the id of the Celery task. `answer` is the row that the worker fills: a preview, the
    rows of a conflict or the trials of its fixes.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    table = models.ForeignKey("catalog.Table", on_delete=models.CASCADE, related_name="+")
    subject = models.CharField(max_length=100)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    asked_at = models.DateTimeField()
    began_at = models.DateTimeField(null=True, blank=True)
    worker = models.CharField(max_length=255, blank=True)
    content_type = models.ForeignKey(ContentType, on_delete=models.CASCADE, related_name="+")
    object_id = models.BigIntegerField()
    answer = GenericForeignKey()

    class Meta:
        ordering = ["asked_at"]

    def __str__(self) -> str:
        return f"{self.subject} of {self.table_id}"
