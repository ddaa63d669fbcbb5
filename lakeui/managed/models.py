"""The catalog: its names, and which commit is which version of a managed table.

These rows are the truth and cannot be rebuilt: a managed table's log follows them.
"""

import uuid
from typing import Any

from django.conf import settings
from django.db import models

from engine.catalog.catalog import RatifiedCommit


class ManagedCatalog(models.Model):
    """A catalog. `storage_root` is the location of its new tables, "" for `CATALOG_ROOT`."""

    name = models.CharField(max_length=255, unique=True)
    comment = models.TextField(blank=True)
    properties = models.JSONField(default=dict, blank=True)
    storage_root = models.CharField(max_length=2000, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class ManagedSchema(models.Model):
    """A schema of a catalog."""

    catalog = models.ForeignKey(ManagedCatalog, on_delete=models.PROTECT, related_name="schemas")
    name = models.CharField(max_length=255)
    comment = models.TextField(blank=True)
    properties = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["catalog", "name"]
        constraints = [
            models.UniqueConstraint(fields=["catalog", "name"], name="one_schema_a_name"),
        ]

    def __str__(self) -> str:
        return f"{self.catalog.name}.{self.name}"


class ReservedTable(models.Model):
    """An id and a location for a new table, until the table is registered."""

    table_id = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    schema = models.ForeignKey(ManagedSchema, on_delete=models.CASCADE, related_name="reserved")
    name = models.CharField(max_length=255)
    location = models.CharField(max_length=2000, unique=True)
    reserved_at = models.DateTimeField(auto_now_add=True)
    reserved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["-reserved_at"]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class ManagedTable(models.Model):
    """A table whose versions this catalog ratifies.

    `latest_version` is -1 until version 0 was seen in the log, and changes only by compare-and-set.
    `definition` has the latest `metaData` and `protocol` actions, `declared` what its creator sent.
    A dropped table keeps its rows and files, and gives up its name.
    """

    table_id = models.UUIDField(unique=True, editable=False)
    full_name = models.CharField(max_length=255)
    schema = models.ForeignKey(  # null: dropped with its tables
        ManagedSchema, null=True, on_delete=models.SET_NULL, related_name="tables"
    )
    name = models.CharField(max_length=255)
    mirror = models.OneToOneField("catalog.Table", on_delete=models.PROTECT, related_name="managed")
    location = models.CharField(max_length=2000, unique=True)
    latest_version = models.BigIntegerField(default=-1)
    published_version = models.BigIntegerField(default=-1)
    timestamp_ms = models.BigIntegerField(default=0)  # the latest commit's
    refused_count = models.PositiveBigIntegerField(default=0)  # its attempts
    definition = models.JSONField(default=dict, blank=True)
    declared = models.JSONField(default=dict, blank=True)
    permitted = models.JSONField(default=list, blank=True)  # maintenance that clients may run
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    updated_at = models.DateTimeField(auto_now=True)
    dropped_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["full_name"]
        constraints = [
            models.UniqueConstraint(
                fields=["schema", "name"],
                condition=models.Q(dropped_at=None),
                name="one_managed_table_a_name",
            ),
        ]

    def __str__(self) -> str:
        return self.full_name


class CommitSource(models.Model):
    """A staged commit that a client proposed: the common fields of ratified and refused ones."""

    version = models.BigIntegerField()
    file_name = models.CharField(max_length=100)
    size_bytes = models.BigIntegerField()
    modified_ms = models.BigIntegerField()
    timestamp_ms = models.BigIntegerField()
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    token_name = models.CharField(max_length=100, blank=True)
    client = models.CharField(max_length=200, blank=True)  # its User-Agent

    class Meta:
        abstract = True

    @property
    def commit(self) -> RatifiedCommit:
        """The staged file's facts."""
        return RatifiedCommit(
            self.version, self.file_name, self.size_bytes, self.modified_ms, self.timestamp_ms
        )


class RatifiedVersion(CommitSource):
    """The commit that is a version of a managed table. Rows are never changed."""

    table = models.ForeignKey(ManagedTable, on_delete=models.PROTECT, related_name="ratified")
    ratified_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["table", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["table", "version"], name="one_commit_a_version"),
            models.UniqueConstraint(fields=["table", "file_name"], name="one_version_a_file"),
        ]

    def __str__(self) -> str:
        return f"{self.table_id}@{self.version}"

    def is_commit(self, commit: RatifiedCommit, user_id: int | None) -> bool:
        """Return whether a proposal repeats this one: the same file of the same person."""
        return self.commit == commit and self.user_id == user_id


class CommitAttempt(CommitSource):
    """A commit that was refused because another one has its version.

    `tries` counts the requests. A worker compares it with the commits that were first: `verdict`,
    `rule` and `why`; `transaction` holds the conflict. `content` identifies what it would have
    committed, and `retried_version` is the version as which its client committed that afterwards.
    """

    class Verdict(models.TextChoices):
        UNREAD = "unread", "not read yet"
        PASSES = "passes", "no conflict"
        CONFLICT = "conflict", "conflict"
        UNDECIDABLE = "undecidable", "undecidable"
        UNREADABLE = "unreadable", "unreadable"

    table = models.ForeignKey(ManagedTable, on_delete=models.PROTECT, related_name="attempts")
    latest_version = models.BigIntegerField()  # when it was refused
    refused_at = models.DateTimeField(auto_now_add=True)
    tries = models.PositiveIntegerField(default=1)
    verdict = models.CharField(max_length=11, choices=Verdict.choices, default=Verdict.UNREAD)
    operation = models.CharField(max_length=100, blank=True)
    content = models.JSONField(default=dict, blank=True)
    rule = models.CharField(max_length=60, blank=True)
    why = models.TextField(blank=True)
    transaction = models.ForeignKey(
        "conflicts.PipelineTransaction",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="catalog_attempts",
    )
    retried_version = models.BigIntegerField(null=True, blank=True)
    file_deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-refused_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["table", "file_name"], name="one_attempt_a_file"),
        ]
        indexes = [
            models.Index(fields=["verdict", "refused_at"], name="attempt_by_verdict"),
            models.Index(fields=["table", "version"], name="attempt_by_version"),
        ]

    def __str__(self) -> str:
        return f"{self.file_name} of {self.table_id}"


def source_fields(commit: RatifiedCommit, origin: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `CommitSource`."""
    return {
        "version": commit.version,
        "file_name": commit.file_name,
        "size_bytes": commit.size_bytes,
        "modified_ms": commit.modified_ms,
        "timestamp_ms": commit.timestamp_ms,
        **origin,
    }
