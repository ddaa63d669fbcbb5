"""Conflicts: aborted writes never reach the log, so these rows are the only record there is."""

from django.conf import settings
from django.db import models

from engine.conflict_facts import Rule, Subclass
from engine.conflicts.decide.checker import CHECK_OF
from engine.words import count_noun
from lakeui.catalog.models import Table

_RULES = {rule.value: rule for rule in Rule}


def rule_named(text: str) -> Rule | None:
    """Return the rule of a recorded name; None for "" and for unknown names."""
    return _RULES.get(text)


def rule_choices() -> list[tuple[str, str]]:
    """Return the rules that decide a conflict, with their titles."""
    return [(rule.value, CHECK_OF[rule].title) for rule in Rule]


class StatementPair(models.Model):
    """Two statements on one table that conflicted, without their literals, and who works on it.

    `fingerprint` joins the fingerprints of the aborted statement and of the winning one.
    """

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="statement_pairs")
    fingerprint = models.CharField(max_length=33)
    current_operation = models.CharField(max_length=100, blank=True)
    winner_operation = models.CharField(max_length=100, blank=True)
    current_statement = models.TextField(blank=True)
    winner_statement = models.TextField(blank=True)
    is_known = models.BooleanField(default=False)
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["table", "fingerprint"]
        constraints = [
            models.UniqueConstraint(fields=["table", "fingerprint"], name="one_row_a_pair"),
        ]

    def __str__(self) -> str:
        current, winner = self.current_operation or "?", self.winner_operation or "?"
        return f"{current} \N{MULTIPLICATION SIGN} {winner} of table {self.table_id}"


class Conflict(models.Model):
    """Two conflicting writes. `facts` holds the whole `engine.errors.ConflictFacts` as JSON."""

    class Kind(models.TextChoices):
        ABORTED = "aborted"
        RESOLVED = "resolved"
        REPORTED = "reported"

    ABORTED_KINDS = (Kind.ABORTED, Kind.REPORTED)

    table = models.ForeignKey(
        Table, null=True, blank=True, on_delete=models.CASCADE, related_name="conflicts"
    )
    job = models.ForeignKey(
        "jobs.Job", null=True, blank=True, on_delete=models.SET_NULL, related_name="conflicts"
    )
    attempt = models.PositiveSmallIntegerField(default=1)
    transaction = models.ForeignKey(  # the report's, of a program elsewhere
        "conflicts.PipelineTransaction",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="conflicts",
    )
    statement_pair = models.ForeignKey(  # of aborted writes
        StatementPair,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="conflicts",
        db_index=False,
    )
    sequence = models.PositiveIntegerField(null=True, blank=True)  # of the reporting event
    kind = models.CharField(max_length=10, choices=Kind.choices)
    occurred_at = models.DateTimeField()
    exception = models.CharField(max_length=100, blank=True)  # Delta's class name
    code = models.CharField(max_length=100, blank=True)
    subclass = models.CharField(max_length=60, blank=True)
    rule = models.CharField(max_length=60, blank=True, choices=rule_choices)
    message = models.TextField(blank=True)

    read_version = models.BigIntegerField(null=True, blank=True)
    attempted_version = models.BigIntegerField(null=True, blank=True)
    winning_version = models.BigIntegerField(null=True, blank=True)
    current_operation = models.CharField(max_length=100, blank=True)
    current_predicate = models.TextField(blank=True)
    current_user_name = models.CharField(max_length=255, blank=True)
    isolation_level = models.CharField(max_length=30, blank=True)
    winner_operation = models.CharField(max_length=100, blank=True)
    winner_user_name = models.CharField(max_length=255, blank=True)
    winner_at = models.DateTimeField(null=True, blank=True)

    partitions = models.JSONField(default=list, blank=True)
    file_count = models.BigIntegerField(default=0)
    row_count = models.BigIntegerField(null=True, blank=True)
    can_retry = models.BooleanField(default=True)
    wasted_ms = models.BigIntegerField(default=0)
    wasted_bytes = models.BigIntegerField(default=0)
    order_column = models.CharField(max_length=100, blank=True)  # the column of the next two
    shared_low = models.CharField(max_length=64, blank=True)  # of the shared files
    shared_high = models.CharField(max_length=64, blank=True)
    fixes = models.CharField(max_length=255, blank=True)  # kinds of the remedies that prevent it
    facts = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["-occurred_at", "-id"]
        indexes = [
            models.Index(fields=["table", "-occurred_at", "kind"], name="conflict_by_table"),
            models.Index(fields=["table", "winning_version"], name="conflict_by_winner"),
            models.Index(fields=["-occurred_at", "-id"], name="conflict_by_time"),
            models.Index(  # covers sums and most filters, so that sums do not read the facts
                fields=[
                    "kind",
                    "occurred_at",
                    "table",
                    "current_operation",
                    "winner_operation",
                    "wasted_ms",
                    "wasted_bytes",
                    "current_user_name",
                    "winner_user_name",
                    "statement_pair",
                ],
                name="conflict_sums",
            ),
            models.Index(  # in the grouping order of sums by pair
                fields=[
                    "current_operation",
                    "winner_operation",
                    "kind",
                    "wasted_ms",
                    "wasted_bytes",
                ],
                name="conflict_pairs",
            ),
            models.Index(  # covers the sums of repeated conflicts, pair by pair
                fields=[
                    "statement_pair",
                    "kind",
                    "occurred_at",
                    "wasted_ms",
                    "wasted_bytes",
                    "fixes",
                ],
                name="conflict_by_statements",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["transaction", "sequence"], name="one_conflict_an_event"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.exception or self.kind} {self.current_operation} × {self.winner_operation}"

    @property
    def decided_by(self) -> Rule | None:
        """The rule that found the conflict; None if it is not recorded."""
        return rule_named(self.rule)

    @property
    def rows_text(self) -> str:
        """The rows touched by both sides: 943 rows, at least 100 rows; "" if not compared."""
        return count_noun(self.row_count, "row") if self.row_count else ""

    @property
    def became(self) -> int | None:
        """The version of the write that resolved this conflict, if recorded."""
        if self.kind != Conflict.Kind.RESOLVED:
            return None
        committed = self.job.committed_version if self.job else None
        return self.attempted_version if committed is None else committed

    @property
    def is_row_level(self) -> bool:
        """Whether rows decided: both sides touch the same ones."""
        return bool(self.row_count) or self.subclass == Subclass.ROW_LEVEL_CHANGES

    @property
    def row_level(self) -> str:
        """The reason why compared rows could not resolve the conflict; "" if not recorded."""
        if "facts" in self.get_deferred_fields():
            return str(getattr(self, "said_of_rows", None) or "")  # by `to_list`
        return str(self.facts.get("row_level") or "") if isinstance(self.facts, dict) else ""


class ConflictDay(models.Model):
    """Conflicts of a day in UTC, of all tables together: see `days.py`."""

    day = models.DateField()
    kind = models.CharField(max_length=10, choices=Conflict.Kind.choices)
    current_operation = models.CharField(max_length=100, blank=True)
    winner_operation = models.CharField(max_length=100, blank=True)
    conflicts = models.BigIntegerField(default=0)
    wasted_ms = models.BigIntegerField(default=0)
    wasted_bytes = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["day", "kind", "current_operation", "winner_operation"]
        constraints = [
            models.UniqueConstraint(
                fields=["day", "kind", "current_operation", "winner_operation"],
                name="one_row_a_day_and_pair",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.conflicts} {self.kind} on {self.day}"


class ConflictRows(models.Model):
    """The rows touched by both sides, as read by a worker; kept for an hour."""

    conflict = models.OneToOneField(Conflict, on_delete=models.CASCADE, related_name="row_values")
    asked_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True, blank=True)
    path = models.TextField(blank=True)
    version = models.BigIntegerField(null=True, blank=True)
    positions = models.JSONField(default=list, blank=True)
    columns = models.JSONField(default=list, blank=True)
    rows = models.JSONField(default=list, blank=True)  # lists of texts, null for NULL
    omitted_columns = models.IntegerField(default=0)
    error_code = models.CharField(max_length=60, blank=True)
    error_message = models.TextField(blank=True)

    class Meta:
        ordering = ["-asked_at"]
        verbose_name_plural = "conflict rows"

    def __str__(self) -> str:
        return f"{len(self.positions)} rows of {self.path}"


class ConflictTrials(models.Model):
    """A worker's results of trying each fix of an aborted write on a copy; kept until asked again.

    `answers` are by the fix's kind; `condition` is the one that a person asked about, if any.
    """

    conflict = models.OneToOneField(Conflict, on_delete=models.CASCADE, related_name="trials")
    asked_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True, blank=True)
    condition = models.TextField(blank=True)
    answers = models.JSONField(default=dict, blank=True)
    duration_ms = models.BigIntegerField(null=True, blank=True)
    error_code = models.CharField(max_length=60, blank=True)
    error_message = models.TextField(blank=True)

    class Meta:
        ordering = ["-asked_at"]
        verbose_name_plural = "conflict trials"

    def __str__(self) -> str:
        return f"{len(self.answers)} fixes of c-{self.conflict_id}"


class Erasure(models.Model):
    """A DELETE that a blind append passed over: rows that match the DELETE may be left.

    `rows_at_most` are all rows of the append; null: not recorded. `settled_by` is the version of
    the same DELETE that ran again and saw them.
    """

    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="erasures")
    append_version = models.BigIntegerField()
    delete_version = models.BigIntegerField()
    predicate = models.TextField(blank=True)
    append_writer = models.CharField(max_length=255, blank=True)
    delete_writer = models.CharField(max_length=255, blank=True)
    rows_at_most = models.BigIntegerField(null=True, blank=True)
    at = models.DateTimeField(null=True, blank=True)  # when the DELETE landed
    settled_by = models.BigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["table", "append_version", "delete_version"], name="one_row_an_erasure"
            ),
        ]
        indexes = [models.Index(fields=["settled_by", "-at"], name="erasure_by_time")]

    def __str__(self) -> str:
        return f"v{self.append_version} outlived v{self.delete_version} of {self.table_id}"


class OrderLook(models.Model):
    """The version up to which a table was searched for missed erasures."""

    table = models.OneToOneField(Table, on_delete=models.CASCADE, related_name="order_look")
    version = models.BigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["table"]

    def __str__(self) -> str:
        return f"{self.table_id} up to v{self.version}"


class Pipeline(models.Model):
    """A program elsewhere that reports its transactions, by its application's name.

    `dropped` counts events that the program reported as lost.
    """

    name = models.CharField(max_length=100)
    reported_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="pipelines"
    )
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    dropped = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["name", "reported_by"]
        constraints = [
            models.UniqueConstraint(fields=["name", "reported_by"], name="one_pipeline_a_name"),
        ]

    def __str__(self) -> str:
        return f"pipeline {self.name}"


class PipelineTransaction(models.Model):
    """One transaction of a pipeline. Those without a conflict go after `PIPELINE_KEEP_DAYS`."""

    class State(models.TextChoices):
        RUNNING = "running"
        COMMITTED = "committed"
        ABORTED = "aborted"
        FAILED = "failed"
        ENDED = "ended"  # nothing had to be committed

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="transactions")
    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="pipeline_transactions")
    txn_id = models.CharField(max_length=100)
    run_id = models.CharField(max_length=100, blank=True)  # one for all attempts at a command
    host = models.CharField(max_length=255, blank=True)
    user_name = models.CharField(max_length=255, blank=True)
    engine = models.CharField(max_length=100, blank=True)
    operation = models.CharField(max_length=100, blank=True)
    statement = models.TextField(blank=True)
    attempt = models.PositiveSmallIntegerField(default=1)
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    read_version = models.BigIntegerField(null=True, blank=True)
    committed_version = models.BigIntegerField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    reported_at = models.DateTimeField()

    class Meta:
        ordering = ["-reported_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["pipeline", "table", "txn_id"], name="one_row_a_transaction"
            ),
        ]
        indexes = [
            models.Index(fields=["table", "committed_version"], name="pipeline_by_version"),
            models.Index(fields=["reported_at"], name="pipeline_by_report"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.txn_id} of {self.pipeline_id}"
