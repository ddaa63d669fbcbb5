"""The mirror: the log as rows. It can be deleted and rebuilt; `mirror.py` alone writes it.

JSON is decoded on first use: tables are read for their names and figures far more often than for
their schema, which may have 50,000 columns.
"""

import json
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models.query_utils import DeferredAttribute

from engine.commands.names import column_list, name_sql
from lakeui.catalog.request_models import DiscoveredTable as DiscoveredTable
from lakeui.catalog.request_models import Discovery as Discovery
from lakeui.catalog.request_models import RowRead as RowRead
from lakeui.catalog.request_models import UnregisteredTable as UnregisteredTable
from lakeui.catalog.roles import Role

HEAVY = ("schema", "properties", "row_level_conditions", "reader_features", "writer_features")
"""Columns of a table that a list of tables does not show, and that take long to decode."""


class _EncodedValue(str):
    """A value as the database holds it."""

    __slots__ = ()


class _DecodedLate(DeferredAttribute):
    def __get__(self, instance: models.Model | None, cls: type[models.Model] | None = None) -> Any:  # noqa: ANN401 - JSON
        value = super().__get__(instance, cls)
        if isinstance(value, _EncodedValue) and instance is not None:
            value = instance.__dict__[self.field.attname] = json.loads(value)
        return value

    def __set__(self, instance: models.Model, value: Any) -> None:  # noqa: ANN401 - JSON
        """Make this a data descriptor: otherwise Python would bypass it for stored values."""
        instance.__dict__[self.field.attname] = value


class LateJSONField(models.JSONField):
    """Django's field, decoded by its row on first use; migrations see Django's own.

    Not for `values()`: its results are not decoded.
    """

    descriptor_class = _DecodedLate

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:  # noqa: ANN401 - Django's
        if isinstance(value, str):
            return _EncodedValue(value)
        return super().from_db_value(value, expression, connection)

    def deconstruct(self) -> Any:  # noqa: ANN401 - Django's
        name, _, arguments, keywords = super().deconstruct()
        return name, "django.db.models.JSONField", arguments, keywords


class Table(models.Model):
    """A registered Delta table at the time of the last sync.

    `version` is null until the log was first read (a table that a job is about to create). `schema`
    is Delta's schema JSON; feature, column and property fields are as in the log.
    """

    name = models.CharField(max_length=255, unique=True)
    uri = models.CharField(max_length=2000, unique=True)
    description = models.TextField(blank=True)
    registered_at = models.DateTimeField(auto_now_add=True)
    registered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    version = models.BigIntegerField(null=True, blank=True)
    earliest_version = models.BigIntegerField(null=True, blank=True)
    last_commit_at = models.DateTimeField(null=True, blank=True)
    last_operation = models.CharField(max_length=100, blank=True)
    last_writer = models.CharField(max_length=255, blank=True)  # or its engine, without a user
    last_optimize_at = models.DateTimeField(null=True, blank=True)  # of the versions on record
    last_vacuum_at = models.DateTimeField(null=True, blank=True)
    table_uuid = models.CharField(max_length=100, blank=True)
    created_at_source = models.DateTimeField(null=True, blank=True)
    begun_at = models.DateTimeField(null=True, blank=True)  # by version 0, if mirrored
    min_reader_version = models.IntegerField(null=True, blank=True)
    min_writer_version = models.IntegerField(null=True, blank=True)
    reader_features = models.JSONField(default=list, blank=True)
    writer_features = models.JSONField(default=list, blank=True)
    schema = LateJSONField(default=dict, blank=True)
    partition_columns = models.JSONField(default=list, blank=True)
    clustering_columns = models.JSONField(default=list, blank=True)
    properties = models.JSONField(default=dict, blank=True)

    isolation_level = models.CharField(
        max_length=30, blank=True
    )  # in force: the default is filled in
    isolation_level_is_set = models.BooleanField(default=False)
    deletion_vectors = models.BooleanField(default=False)
    row_tracking = models.BooleanField(default=False)
    row_level_eligible = models.BooleanField(default=False)
    row_level_reason = models.CharField(max_length=200, blank=True)
    row_level_conditions = models.JSONField(  # of engine.conflicts.eligibility, one by one
        default=list, blank=True
    )

    file_count = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField(default=0)
    row_count = models.BigIntegerField(null=True, blank=True)  # null: some file has no statistics
    small_file_count = models.BigIntegerField(default=0)
    deleted_row_count = models.BigIntegerField(default=0)
    vectored_file_count = models.BigIntegerField(default=0)
    live_files_mirrored = models.BigIntegerField(default=0)
    dead_file_count = models.BigIntegerField(default=0)  # removed, not vacuumed, on record
    dead_bytes = models.BigIntegerField(default=0)
    vacuum_from = models.DateTimeField(null=True, blank=True)  # by the log, the first may go
    vacuum_file_count = models.BigIntegerField(default=0)  # VACUUM can delete now, by the store
    vacuum_bytes = models.BigIntegerField(default=0)
    vacuum_measured_at = models.DateTimeField(null=True, blank=True)

    mirrored_at = models.DateTimeField(null=True, blank=True)
    mirror_error_code = models.CharField(max_length=100, blank=True)
    mirror_error = models.TextField(blank=True)
    mirror_failed_at = models.DateTimeField(null=True, blank=True)  # when the trouble began
    mirror_tried_at = models.DateTimeField(null=True, blank=True)  # the last try, with any result
    mirror_tries = models.PositiveIntegerField(
        default=0
    )  # without success, since the trouble began

    class Meta:
        ordering = ["name"]
        indexes = [
            models.Index(fields=["mirrored_at", "mirror_error_code"], name="table_by_mirror"),
            models.Index(  # covers queries over all tables, so that sums do not read schemas
                fields=[
                    "name",
                    "version",
                    "size_bytes",
                    "file_count",
                    "small_file_count",
                    "vacuum_bytes",
                    "row_level_eligible",
                    "mirror_error_code",
                ],
                name="table_sums",
            ),
            models.Index(fields=["last_commit_at"], name="table_by_commit"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def may_compact(self) -> bool:
        """Whether it has small files enough for their share to mean something."""
        return self.small_file_count >= int(settings.ATTENTION_SMALL_FILES)


class TableSync(models.Model):
    """The first reading of a table's log, requested or under way: see `syncs.py`."""

    class Stage(models.TextChoices):
        COMMITS = "commits", "reading versions"
        SNAPSHOT = "snapshot", "reading the files and columns of the latest version"
        ROWS = "rows", "storing them"

    table = models.OneToOneField(
        Table, on_delete=models.CASCADE, primary_key=True, related_name="sync"
    )
    requested_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField(null=True, blank=True)  # the worker's last progress report
    stage = models.CharField(max_length=8, choices=Stage.choices, blank=True)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["requested_at"]

    def __str__(self) -> str:
        return f"sync of {self.table_id}"


class Commit(models.Model):
    """One version. Facts unrecorded by its writer are null or empty, never guessed."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="commits")
    version = models.BigIntegerField()
    committed_at = models.DateTimeField(null=True, blank=True)
    has_in_commit_timestamp = models.BooleanField(default=False)
    operation = models.CharField(max_length=100, blank=True)
    operation_parameters = models.JSONField(default=dict, blank=True)
    operation_metrics = models.JSONField(default=dict, blank=True)
    predicate = models.TextField(blank=True)
    read_version = models.BigIntegerField(null=True, blank=True)
    isolation_level = models.CharField(max_length=30, blank=True)
    is_blind_append = models.BooleanField(null=True, blank=True)
    user_name = models.CharField(max_length=255, blank=True)
    engine_info = models.CharField(max_length=255, blank=True)
    txn_id = models.CharField(max_length=200, blank=True)
    user_metadata = models.TextField(blank=True)

    files_added = models.BigIntegerField(default=0)
    files_removed = models.BigIntegerField(default=0)
    files_restated = models.BigIntegerField(default=0)  # of them, the same file in both
    bytes_added = models.BigIntegerField(default=0)  # of added files, without restated ones
    bytes_removed = models.BigIntegerField(default=0)  # of files that left
    bytes_written = models.BigIntegerField(default=0)  # see `engine.actions.written_files`
    rows_added = models.BigIntegerField(null=True, blank=True)
    rows_removed = models.BigIntegerField(null=True, blank=True)  # live rows of files that left
    vectors_added = models.BigIntegerField(default=0)  # adds with a deletion vector
    rows_deleted_by_vectors = models.BigIntegerField(default=0)
    changes_data = models.BooleanField(default=False)
    changes_metadata = models.BooleanField(default=False)
    changes_protocol = models.BooleanField(default=False)
    files_mirrored = models.IntegerField(
        default=0
    )  # of added + removed, how many are in CommitFile
    raw = models.TextField(blank=True)  # the commit's JSON lines, cut at a cap
    raw_bytes = models.BigIntegerField(default=0)  # the true size; more than len(raw): cut

    class Meta:
        ordering = ["table", "-version"]
        constraints = [
            models.UniqueConstraint(fields=["table", "version"], name="one_row_a_version"),
        ]
        indexes = [
            models.Index(fields=["table", "-committed_at"], name="commit_by_time"),
            models.Index(fields=["txn_id"], name="commit_by_txn"),
            models.Index(fields=["committed_at"], name="commit_by_moment"),
            models.Index(
                fields=["table", "-version"],
                condition=models.Q(changes_metadata=True) | models.Q(changes_protocol=True),
                name="commit_that_defines",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.table_id}@{self.version}"

    @property
    def files_came(self) -> int:
        """Files of this version that the previous one lacked."""
        return self.files_added - self.files_restated

    @property
    def files_gone(self) -> int:
        """Files of the previous version that this one lacks; a restated one is in both."""
        return max(self.files_removed - self.files_restated, 0)


class CommitHour(models.Model):
    """The mirrored commits of an hour, of all tables together: see `commit_hours.py`."""

    hour = models.DateTimeField(unique=True)
    commits = models.BigIntegerField(default=0)
    bytes_added = models.BigIntegerField(default=0)
    bytes_removed = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["hour"]

    def __str__(self) -> str:
        return f"{self.commits} at {self.hour:%Y-%m-%d %H}:00"


class CommitFile(models.Model):
    """A file added or removed by a version, up to a cap per commit."""

    class Action(models.TextChoices):
        ADD = "add", "added"
        REMOVE = "remove", "removed"
        CDC = "cdc", "change data"

    commit = models.ForeignKey(Commit, on_delete=models.CASCADE, related_name="files")
    action = models.CharField(max_length=6, choices=Action.choices)
    path = models.TextField()
    partition_values = models.JSONField(default=dict, blank=True)
    size_bytes = models.BigIntegerField(null=True, blank=True)
    row_count = models.BigIntegerField(null=True, blank=True)
    deleted_row_count = models.BigIntegerField(default=0)  # cardinality of its deletion vector
    data_change = models.BooleanField(default=True)

    class Meta:
        ordering = ["commit", "action", "path"]

    def __str__(self) -> str:
        return f"{self.action} {self.path}"


class LiveFile(models.Model):
    """A live file of the latest mirrored version, up to a cap a table."""

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="live_files")
    path = models.TextField()
    partition_values = models.JSONField(default=dict, blank=True)
    size_bytes = models.BigIntegerField()
    row_count = models.BigIntegerField(null=True, blank=True)
    deleted_row_count = models.BigIntegerField(default=0)
    modified_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["table", "path"]
        indexes = [models.Index(fields=["table", "size_bytes"], name="live_file_by_size")]

    def __str__(self) -> str:
        return self.path


class TableGrant(models.Model):
    """A role on one table, beside the person's groups' role on every table.

    Not part of the mirror: rebuilding a table's rows leaves it alone.
    """

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="grants")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="table_grants"
    )
    role = models.PositiveSmallIntegerField(choices=Role.choices)
    granted_at = models.DateTimeField(auto_now_add=True)
    granted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["table", "user"]
        constraints = [
            models.UniqueConstraint(fields=["table", "user"], name="one_grant_a_person_and_table"),
        ]

    def __str__(self) -> str:
        return f"{self.get_role_display()} on {self.table_id} for {self.user_id}"


class TableKey(models.Model):
    """A declared primary or foreign key. No log holds it, and no engine enforces it.

    Not part of the mirror. `columns` are spelt as in the schema when it was declared. `references`
    is the other table's name as written; `referenced_table` the one registered here by that name.
    """

    class Kind(models.TextChoices):
        PRIMARY = "primary", "primary key"
        FOREIGN = "foreign", "foreign key"

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="keys")
    kind = models.CharField(max_length=7, choices=Kind.choices)
    name = models.CharField(max_length=255)
    columns = models.JSONField(default=list)
    references = models.CharField(max_length=255, blank=True)
    referenced_table = models.ForeignKey(
        Table, null=True, blank=True, on_delete=models.SET_NULL, related_name="referring_keys"
    )
    referenced_columns = models.JSONField(default=list, blank=True)
    declared_at = models.DateTimeField(auto_now_add=True)
    declared_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["table", "-kind", "name"]
        constraints = [
            models.UniqueConstraint(fields=["table", "name"], name="one_key_a_name_and_table"),
            models.UniqueConstraint(
                fields=["table"], condition=models.Q(kind="primary"), name="one_primary_key_a_table"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.table_id}"

    @property
    def statement(self) -> str:
        """The key as SQL, for other catalogs; a redacted key without hidden facts."""
        name, columns = name_sql(self.name), column_list(tuple(map(name_sql, self.columns)))
        if self.kind == self.Kind.PRIMARY:
            return f"CONSTRAINT {name} PRIMARY KEY {columns} NOT ENFORCED"
        if not self.references:
            return f"-- {name} references a table that you may not see"
        other = ".".join(map(name_sql, self.references.split(".")))
        referenced = tuple(map(name_sql, self.referenced_columns))
        others = f" {column_list(referenced)}" if referenced else ""
        return f"CONSTRAINT {name} FOREIGN KEY {columns} REFERENCES {other}{others} NOT ENFORCED"


class Preview(models.Model):
    """Some rows of a table at a version, read by a worker for people to see; kept for an hour.

    With `older_version` the rows that differ between the two; with `profiled` the contents of that
    column. `digest` stands for the whole request. `answer` holds data other than rows: of a
    comparison and of a profile, see `workers.preview`.
    """

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="previews")
    version = models.BigIntegerField()
    older_version = models.BigIntegerField(null=True, blank=True)
    where = models.CharField(max_length=2000, blank=True, default="")  # "" for all rows
    wanted = models.JSONField(default=list, blank=True)  # names of columns; all without
    keys = models.JSONField(default=list, blank=True)  # columns identifying a row
    profiled = models.TextField(blank=True, default="")
    digest = models.CharField(max_length=64, editable=False)
    asked_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True, blank=True)
    columns = models.JSONField(default=list, blank=True)
    rows = models.JSONField(default=list, blank=True)  # lists of texts, null for NULL
    answer = models.JSONField(default=dict, blank=True)
    omitted_columns = models.IntegerField(default=0)
    row_count = models.BigIntegerField(null=True, blank=True)  # of the version; null: not recorded
    file_count = models.BigIntegerField(null=True, blank=True)
    marked_rows = models.BigIntegerField(null=True, blank=True)  # hidden by deletion vectors
    error_code = models.CharField(max_length=60, blank=True)
    error_message = models.TextField(blank=True)

    class Meta:
        ordering = ["-asked_at"]
        constraints = [
            models.UniqueConstraint(fields=["table", "digest"], name="one_preview_a_request"),
        ]

    def __str__(self) -> str:
        return f"{self.table_id} v{self.version}"

    def save(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Django's
        """Save the row with its request's digest."""
        self.digest = self.digest_of_request()
        super().save(*args, **options)

    @property
    def answered(self) -> dict[str, Any] | None:
        """The data other than rows, once it was read."""
        return self.answer or None

    def digest_of_request(self) -> str:
        """Return a digest of the request: a condition alone may be longer than an index allows."""
        said = [self.version, self.older_version, self.where, self.wanted, self.keys, self.profiled]
        return sha256(json.dumps(said).encode()).hexdigest()
