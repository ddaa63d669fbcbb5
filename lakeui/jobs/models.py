"""Jobs requested by people and schedules, as a state machine whose row is the truth."""

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

from lakeui.catalog.models import Table
from lakeui.task_names import SPARK_QUEUE


class Job(models.Model):
    """A piece of work on one table. The row decides; the broker's message is a wake-up.

    `fence` grows with every lease; a worker with a stale fence may not write to the row. `txn_id`
    is drawn here, once, so that every attempt recognizes its own commit.

    `also_changes` are the other tables changed by the steps of a script: `writers` fills it, and
    answers who changes a table.

    `commit_after` holds this job's commit until that job has ended: for rehearsing a conflict.

    `by_system` means that the installation itself requested it. A job without requester that is not
    the system's belonged to a deleted account: it is not run.

    `caused_by` is the write after whose commit its table requested this one (auto compaction).

    A job is cancelling from the request to cancel it until its tasks have ended.

    `time_limit_s` is the limit for one worker, without the time in the queue; null: no limit.
    """

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        COMMITTING = "committing"
        CANCELLING = "cancelling"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CONFLICTED = "conflicted"
        CANCELLED = "cancelled"

    AT_WORK = (State.RUNNING, State.COMMITTING, State.CANCELLING)
    ACTIVE = (State.QUEUED, *AT_WORK)
    ENDED = (State.SUCCEEDED, State.FAILED, State.CONFLICTED, State.CANCELLED)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="jobs")
    also_changes = models.ManyToManyField(Table, blank=True, related_name="+")
    kind = models.CharField(max_length=40)  # a key of engine.commands.model.COMMANDS
    parameters = models.JSONField(default=dict, blank=True)
    statement = models.TextField(blank=True)  # the command as SQL, to read
    dry_run = models.BooleanField(default=False)
    queue = models.CharField(max_length=20, default=SPARK_QUEUE)  # the workers that may run it
    state = models.CharField(max_length=12, choices=State.choices, default=State.QUEUED)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="jobs",
    )
    by_system = models.BooleanField(default=False)
    reason = models.TextField(blank=True)
    idempotency_key = models.CharField(max_length=255, blank=True)
    request_digest = models.CharField(max_length=64, blank=True)
    retry_of = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="reruns"
    )
    commit_after = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    caused_by = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="follow_ups"
    )
    schedule = models.ForeignKey(
        "Schedule", null=True, blank=True, on_delete=models.SET_NULL, related_name="jobs"
    )

    trace_parent = models.CharField(max_length=55, blank=True, editable=False)  # W3C's traceparent
    txn_id = models.UUIDField(default=uuid.uuid4, editable=False)
    base_version = models.BigIntegerField(
        null=True, blank=True
    )  # of the table, before the first attempt
    max_retries = models.PositiveSmallIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    time_limit_s = models.PositiveIntegerField(null=True, blank=True)

    worker = models.CharField(max_length=255, blank=True)
    fence = models.BigIntegerField(default=0)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    cancel_requested_at = models.DateTimeField(null=True, blank=True)

    progress_stage = models.CharField(max_length=100, blank=True)
    progress_done = models.BigIntegerField(default=0)
    progress_total = models.BigIntegerField(default=0)
    progress_unit = models.CharField(max_length=30, blank=True)
    progress_running = models.BigIntegerField(default=0)  # of the rest, at work now

    created_at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True, blank=True)  # handed to the broker; null: it was down
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    committed_version = models.BigIntegerField(null=True, blank=True)
    metrics = models.JSONField(default=dict, blank=True)
    plan = models.JSONField(default=dict, blank=True)  # of a dry run
    error_code = models.CharField(max_length=100, blank=True)
    error_message = models.TextField(blank=True)
    error_facts = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["requested_by", "idempotency_key"],
                condition=~models.Q(idempotency_key=""),
                name="one_job_an_idempotency_key",
            ),
        ]
        indexes = [
            models.Index(fields=["state", "lease_expires_at"], name="job_by_lease"),
            models.Index(fields=["table", "-created_at"], name="job_by_table"),
            models.Index(fields=["-created_at", "-id", "state"], name="job_by_time"),
            models.Index(fields=["-finished_at", "state"], name="job_by_end"),
            models.Index(fields=["state", "-finished_at", "table"], name="job_by_outcome"),
            models.Index(fields=["requested_by", "-created_at"], name="job_by_person"),
            models.Index(fields=["schedule", "-created_at"], name="job_by_schedule"),
            models.Index(fields=["table", "kind", "state", "-finished_at"], name="job_by_kind"),
            models.Index(fields=["kind", "-created_at"], name="job_by_kind_time"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} on {self.table_id} ({self.state})"

    @property
    def is_active(self) -> bool:
        """Whether it has not ended yet."""
        return self.state in self.ACTIVE

    @property
    def requester(self) -> str:
        """The requester in words."""
        if self.requested_by is not None:
            return self.requested_by.get_username()
        return "the system" if self.by_system else "a deleted account"


class Schedule(models.Model):
    """A job requested again and again, as its owner, who must still be allowed to each time.

    `cron` has five fields, in UTC. `note` says why the last firing made no job, if so.
    `time_limit_s` is that of its jobs; 0 is `JOB_TIME_LIMIT_SECONDS`.
    """

    name = models.CharField(max_length=200)
    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="schedules")
    also_changes = models.ManyToManyField(Table, blank=True, related_name="+")  # as a job's
    cron = models.CharField(max_length=100)
    kind = models.CharField(max_length=40)
    parameters = models.JSONField(default=dict, blank=True)
    statement = models.TextField(blank=True)
    max_retries = models.PositiveSmallIntegerField(default=0)
    time_limit_s = models.PositiveIntegerField(default=0)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="schedules"
    )
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    next_due_at = models.DateTimeField(null=True, blank=True)
    last_fired_at = models.DateTimeField(null=True, blank=True)
    last_job = models.ForeignKey(
        Job, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    note = models.TextField(blank=True)

    class Meta:
        ordering = ["table", "name"]
        constraints = [
            models.UniqueConstraint(fields=["table", "name"], name="one_schedule_a_name_and_table"),
        ]
        indexes = [models.Index(fields=["enabled", "next_due_at"], name="schedule_by_due")]

    def __str__(self) -> str:
        return f"{self.name} ({self.cron})"


class JobAttempt(models.Model):
    """One attempt at a job: its read version, its end, its cost.

    Core times and bytes are Spark's counts, null if there are none. `spark_application` is the id
    of its Spark application, blank without Spark. If its worker was still starting Spark after the
    request, `session_from` and `session_until` are the bounds of that start.
    """

    class Outcome(models.TextChoices):
        RUNNING = "running"
        COMMITTED = "committed"
        NOTHING_TO_DO = "nothing_to_do"
        CONFLICTED = "conflicted"
        FAILED = "failed"
        CANCELLED = "cancelled"
        LOST = "lost", "worker lost"

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempt_rows")
    number = models.PositiveSmallIntegerField()
    worker = models.CharField(max_length=255, blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    outcome = models.CharField(max_length=15, choices=Outcome.choices, default=Outcome.RUNNING)
    read_version = models.BigIntegerField(null=True, blank=True)
    attempted_version = models.BigIntegerField(null=True, blank=True)
    bytes_written = models.BigIntegerField(default=0)
    files_written = models.BigIntegerField(null=True, blank=True)
    core_ms = models.BigIntegerField(null=True, blank=True)
    bytes_read = models.BigIntegerField(null=True, blank=True)
    bytes_shuffled = models.BigIntegerField(null=True, blank=True)
    spark_application = models.CharField(max_length=100, blank=True)
    session_from = models.DateTimeField(null=True, blank=True)
    session_until = models.DateTimeField(null=True, blank=True)
    message = models.TextField(blank=True)

    class Meta:
        ordering = ["job", "number"]
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="one_row_an_attempt")]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.job_id}"


class JobStage(models.Model):
    """A step of an attempt: its duration, its number of tasks, their cost.

    A step that recurs is one row; `took_ms` sums its turns. `found` is its result in words.
    `spark_stages` has Spark's longest stages as `spark_stages` reads them, `spark_stage_count` the
    number of all.
    """

    attempt = models.ForeignKey(JobAttempt, on_delete=models.CASCADE, related_name="stages")
    place = models.PositiveSmallIntegerField()  # from 0
    name = models.CharField(max_length=100)
    found = models.CharField(max_length=200, blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)  # null: it runs
    took_ms = models.BigIntegerField(default=0)
    unit = models.CharField(max_length=30, blank=True)
    done = models.BigIntegerField(default=0)
    running = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    median_ms = models.BigIntegerField(null=True, blank=True)  # of the longest Spark stage's tasks
    slowest_ms = models.BigIntegerField(null=True, blank=True)
    slowest_task = models.IntegerField(null=True, blank=True)
    core_ms = models.BigIntegerField(null=True, blank=True)
    bytes_read = models.BigIntegerField(null=True, blank=True)
    bytes_shuffled = models.BigIntegerField(null=True, blank=True)
    spark_stages = models.JSONField(default=list, blank=True)
    spark_stage_count = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["attempt", "place"]
        constraints = [
            models.UniqueConstraint(fields=["attempt", "place"], name="one_row_a_stage"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of attempt {self.attempt_id}"


class Upload(models.Model):
    """A file uploaded as a source, for its sender alone: `uploads` decides who may name it.

    It lies in a directory called after its id, below `UPLOAD_HOME`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="uploads"
    )
    name = models.CharField(max_length=120)
    size_bytes = models.BigIntegerField(default=0)
    sent_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-sent_at"]

    def __str__(self) -> str:
        return self.name


class WorkerReport(models.Model):
    """A worker's last report, some seconds ago, also from an idle worker."""

    name = models.CharField(max_length=255, unique=True)  # Celery's: spark@host
    queue = models.CharField(max_length=20)
    pid = models.IntegerField()
    slots = models.PositiveIntegerField(default=1)  # jobs at once
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    code_version = models.CharField(max_length=40, blank=True)  # as `code_version.code_version`
    spark_version = models.CharField(max_length=30, blank=True)  # blank: it has no Spark
    spark_master = models.CharField(max_length=200, blank=True)
    executors = models.PositiveIntegerField(null=True, blank=True)
    cores = models.PositiveIntegerField(null=True, blank=True)
    busy_cores = models.PositiveIntegerField(null=True, blank=True)
    active_stages = models.PositiveIntegerField(null=True, blank=True)
    spark_application = models.CharField(max_length=100, blank=True)
    spark_ui = models.CharField(max_length=200, blank=True)  # where its Spark serves its own pages

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PeriodicTurn(models.Model):
    """The holder of a periodic task's round; none if `expires_at` is null or past."""

    name = models.CharField(max_length=60, unique=True)  # the task's
    holder = models.UUIDField(null=True)
    expires_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class JobEvent(models.Model):
    """A line of a job's log."""

    class Level(models.TextChoices):
        INFO = "info"
        WARNING = "warning"
        ERROR = "error"

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField()
    level = models.CharField(max_length=8, choices=Level.choices, default=Level.INFO)
    message = models.TextField()
    data = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["job", "at", "id"]

    def __str__(self) -> str:
        return self.message
