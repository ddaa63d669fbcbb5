"""Reads that people wait for, from the request until a worker has answered."""

import uuid

from django.conf import settings
from django.contrib.contenttypes.fields import GenericForeignKey
from django.contrib.contenttypes.models import ContentType
from django.db import models


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
