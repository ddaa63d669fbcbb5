"""Mutes, the tables of audit entries, alerts, and the outboxes of alerts and of lineage."""

import uuid

from auditlog.models import LogEntry
from django.conf import settings
from django.db import models

from lakeui.catalog.models import Table
from lakeui.conflicts.models import PipelineTransaction, StatementPair
from lakeui.jobs.models import Job
from lakeui.monitoring.conditions import Condition, condition_choices


class Mute(models.Model):
    """A condition muted until a time: for one table, or for all if none is named.

    Or the conflicts of two statements, which then count in no condition; `about` is empty.
    """

    about = models.CharField(max_length=20, blank=True)  # a value of `Condition`
    table = models.ForeignKey(
        Table, null=True, blank=True, on_delete=models.CASCADE, related_name="mutes"
    )
    statement_pair = models.OneToOneField(
        StatementPair, null=True, blank=True, on_delete=models.CASCADE, related_name="mute"
    )
    until = models.DateTimeField()
    reason = models.CharField(max_length=500, blank=True)
    muted_at = models.DateTimeField(auto_now_add=True)
    muted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["until", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["about", "table"],
                condition=models.Q(statement_pair__isnull=True),
                name="one_mute_a_check_and_table",
            ),
            models.UniqueConstraint(
                fields=["about"],
                condition=models.Q(table__isnull=True),
                name="one_mute_a_check_of_all",
            ),
        ]
        indexes = [models.Index(fields=["until"], name="mute_by_end")]

    def __str__(self) -> str:
        return f"{self.about} of {self.table_id or 'all tables'} until {self.until:%Y-%m-%d}"

    @property
    def label(self) -> str:
        """The label of the condition."""
        if self.statement_pair_id:
            return "Repeated conflicts"
        return str(Condition(self.about).label) if self.about in Condition.values else self.about


class AuditedTable(models.Model):
    """A table in an audit entry, by id, because the audit log outlives the table."""

    entry = models.ForeignKey(LogEntry, on_delete=models.CASCADE, related_name="audited_tables")
    table_pk = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["table_pk", "entry"], name="one_entry_a_table_and_name")
        ]

    def __str__(self) -> str:
        return f"entry {self.entry_id} on table {self.table_pk}"


class AlertChannel(models.Model):
    """The target of alerts: a webhook, or people's addresses. URL and secret are encrypted."""

    class Kind(models.TextChoices):
        WEBHOOK = "webhook", "Webhook (JSON)"
        SLACK = "slack", "Slack"
        TEAMS = "teams", "Microsoft Teams"
        EMAIL = "email", "E-mail"

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    shown_target = models.CharField(max_length=1000)  # a webhook's host; addresses of people
    sealed_target = models.TextField()
    sealed_secret = models.TextField(blank=True)  # signs what a webhook gets
    secret_made_at = models.DateTimeField(null=True, blank=True)
    quiet_from = models.TimeField(null=True, blank=True)  # in `zone`; null: no quiet hours
    quiet_to = models.TimeField(null=True, blank=True)
    zone = models.CharField(max_length=64, default="UTC")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class AlertRule(models.Model):
    """A rule for a channel: a condition on tables whose names match.

    `threshold` null is the condition's own. After a message the rule's next one waits for
    `group_minutes`, and reports everything found meanwhile. A lasting finding is reported again
    after `repeat_hours`; 0: never.
    """

    name = models.CharField(max_length=100, unique=True)
    condition = models.CharField(max_length=20, choices=condition_choices)
    threshold = models.PositiveIntegerField(null=True, blank=True)
    tables = models.CharField(max_length=255, blank=True)  # a pattern: sales.*; blank: all
    channel = models.ForeignKey(AlertChannel, on_delete=models.CASCADE, related_name="rules")
    group_minutes = models.PositiveSmallIntegerField(default=5)
    repeat_hours = models.PositiveSmallIntegerField(default=0)
    ignores_quiet_hours = models.BooleanField(default=False)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    told_at = models.DateTimeField(null=True, blank=True)  # when its last message was written

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class AlertFinding(models.Model):
    """A rule's finding, lasting or not reported yet."""

    rule = models.ForeignKey(AlertRule, on_delete=models.CASCADE, related_name="findings")
    key = models.CharField(max_length=120)  # of one thing, the same at each look
    content = models.JSONField(default=dict)  # an item of a message
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    told_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["rule", "first_seen_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["rule", "key"], name="one_finding_a_rule_and_key")
        ]

    def __str__(self) -> str:
        return self.key


class Delivery(models.Model):
    """A row of an outbox. It is tried until it is delivered, at least once, or given up."""

    class Outcome(models.TextChoices):
        WAITING = "waiting"
        DELIVERED = "delivered"
        GIVEN_UP = "given_up", "given up"

    created_at = models.DateTimeField()
    outcome = models.CharField(max_length=10, choices=Outcome.choices, default=Outcome.WAITING)
    tries = models.PositiveIntegerField(default=0)
    next_try_at = models.DateTimeField(null=True, blank=True)  # null: it ended
    ended_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True)  # of the last try

    class Meta:
        abstract = True


class AlertDelivery(Delivery):
    """A message in the outbox of alerts."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    channel = models.ForeignKey(AlertChannel, on_delete=models.CASCADE, related_name="deliveries")
    rule = models.ForeignKey(
        AlertRule, null=True, blank=True, on_delete=models.SET_NULL, related_name="deliveries"
    )
    is_test = models.BooleanField(default=False)
    content = models.JSONField(default=dict)

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name_plural = "alert deliveries"
        indexes = [
            models.Index(fields=["next_try_at"], name="delivery_by_due"),
            models.Index(fields=["-created_at", "-id"], name="delivery_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.channel_id} {self.created_at:%Y-%m-%d %H:%M}"


class LineageEvent(Delivery):
    """An event of a run, as OpenLineage has it; `content` is deleted when it is delivered.

    A run is that of a job, of a step of a script, or of the attempts at a reported transaction. It
    has one event of each type.
    """

    class Type(models.TextChoices):
        START = "START"
        COMPLETE = "COMPLETE"
        FAIL = "FAIL"
        ABORT = "ABORT"

    ENDS = (Type.COMPLETE, Type.FAIL, Type.ABORT)

    run_id = models.UUIDField()
    type = models.CharField(max_length=8, choices=Type.choices)
    at = models.DateTimeField()
    job = models.ForeignKey(
        Job, null=True, blank=True, on_delete=models.CASCADE, related_name="lineage_events"
    )
    transaction = models.ForeignKey(
        PipelineTransaction,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="lineage_events",
    )
    content = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["run_id", "type"], name="one_event_a_run_and_type")
        ]
        indexes = [
            models.Index(fields=["next_try_at"], name="lineage_by_due"),
            models.Index(fields=["-created_at"], name="lineage_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.type} of {self.run_id}"
